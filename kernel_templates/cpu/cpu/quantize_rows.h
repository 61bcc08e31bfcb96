#pragma once

#include <torch/csrc/stable/tensor.h>

// codes[r, c] = round(x[r, c] / scale[r]) with scale[r] = max |x[r]| / 127, so that codes reach from -127 to 127. A row
// without a number that can be coded, of zeros or with an infinity or NaN, has codes 0; its scale tells.
//
// All tensors are dense: x is float32, bfloat16 or float16 of shape (rows, width), codes int8 with as many numbers, scale
// float32 with one a row.
void quantize_rows(
    const torch::stable::Tensor& x, const torch::stable::Tensor& codes, const torch::stable::Tensor& scale);
