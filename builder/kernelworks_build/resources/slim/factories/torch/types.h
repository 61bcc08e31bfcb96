// The slim headers for code that makes tensors as well: `torch::empty` and its like.
#pragma once

#define AT_PER_OPERATOR_HEADERS  // the operators that it needs one by one, not all of them
#include <torch/csrc/autograd/generated/variable_factories.h>
#undef AT_PER_OPERATOR_HEADERS

#include "../../tensor/torch/types.h"
