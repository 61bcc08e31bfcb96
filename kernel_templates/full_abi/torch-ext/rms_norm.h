// What a backend implements. The binding has checked the arguments: they are dense, and there is at least one number.
#pragma once

#include <ATen/core/Tensor.h>

// Root mean square normalisation of the rows of x, of shape (rows, width):
//   scale[r] = 1 / sqrt(mean(x[r]^2) + eps)        out[r, c] = x[r, c] * scale[r] * weight[c]
// `scale` has the type of the computation: float, or double for double.
void rms_norm_rows(
    const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& out, const at::Tensor& scale);

// The gradient of x:  grad_x[r] = scale[r] * (g - x[r] * scale[r]^2 * mean(g * x[r])) with g = grad[r] * weight
void rms_norm_rows_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    const at::Tensor& grad_x);
