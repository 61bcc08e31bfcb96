// As for the other set.
#pragma once
#include <torch/library.h>
#include_next <registration.h>
