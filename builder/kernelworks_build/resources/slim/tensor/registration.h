// A binding that registers operators takes `torch::Library` from `torch/all.h`; of the slim headers it gets it here.
#pragma once
#include <torch/library.h>
#include_next <registration.h>
