#pragma once
#include "../tensor/x86intrin.h"
