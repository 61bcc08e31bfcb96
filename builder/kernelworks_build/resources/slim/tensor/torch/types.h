// The tensor, its facts and its checks: what most kernels need of torch, and a fifth of what `torch/types.h` reads.
//
// All of it is torch's own; a name that is missing here ends the compile, and the builder takes the whole headers then.
// The standard headers are those that decide overloads (`abs` of a float): they must be seen here as they are there.
#pragma once

#include <cmath>
#include <complex>
#include <cstdlib>
#include <math.h>
#include <stdlib.h>

#include <ATen/DeviceGuard.h>
#include <ATen/Dispatch.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

namespace torch {

using namespace at;
using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;

constexpr auto kUInt8 = at::kByte, kU8 = at::kByte;
constexpr auto kInt8 = at::kChar, kI8 = at::kChar;
constexpr auto kInt16 = at::kShort, kI16 = at::kShort;
constexpr auto kInt32 = at::kInt, kI32 = at::kInt;
constexpr auto kInt64 = at::kLong, kI64 = at::kLong;
constexpr auto kFloat16 = at::kHalf, kF16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat, kF32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble, kF64 = at::kDouble;

}  // namespace torch
