// The instructions that torch's clock wants, without those of vectors: a quarter of what a unit would read.
#pragma once
#include <x86gprintrin.h>
