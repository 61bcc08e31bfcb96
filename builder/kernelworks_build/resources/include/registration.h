// What every kernel's binding needs to become a Python module; provided by the builder.
//
// The builder defines TORCH_EXTENSION_NAME: the unique name of this build, at once the Python module and
// the namespace of its operators. Python's limited API only: one shared library serves every CPython.
#pragma once

#include <Python.h>

#define KERNELWORKS_STRING_(name) #name
#define KERNELWORKS_STRING(name) KERNELWORKS_STRING_(name)
#define KERNELWORKS_INIT_(name) PyInit_##name
#define KERNELWORKS_INIT(name) KERNELWORKS_INIT_(name)

// torch pastes the namespace into identifiers; these forms let it be a macro such as TORCH_EXTENSION_NAME.
#define TORCH_LIBRARY_EXPAND(name, library) TORCH_LIBRARY(name, library)
#define TORCH_LIBRARY_IMPL_EXPAND(name, key, library) TORCH_LIBRARY_IMPL(name, key, library)
#define STABLE_TORCH_LIBRARY_EXPAND(name, library) STABLE_TORCH_LIBRARY(name, library)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(name, key, library) STABLE_TORCH_LIBRARY_IMPL(name, key, library)

// Defines an empty Python module: importing it loads the library, whose static objects register the operators.
#define REGISTER_EXTENSION(name)                                               \
  PyMODINIT_FUNC KERNELWORKS_INIT(name)(void) {                                \
    static PyModuleDef definition = {                                          \
        PyModuleDef_HEAD_INIT, KERNELWORKS_STRING(name), nullptr, 0, nullptr,  \
        nullptr, nullptr, nullptr, nullptr};                                   \
    return PyModule_Create(&definition);                                       \
  }
