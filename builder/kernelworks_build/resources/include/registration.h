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

// The text of a name, which the compiler takes for any: of one that it knows it would make a std::string piece by piece,
// and the link step, which gives a build its name, finds whole ones only.
static inline const char *kernelworks_text(const char *text) {
  __asm__("" : "+r"(text));
  return text;
}

// What TORCH_LIBRARY and TORCH_LIBRARY_IMPL say, for a name that may be a macro such as TORCH_EXTENSION_NAME.
#define TORCH_LIBRARY_EXPAND(name, library) KERNELWORKS_LIBRARY(DEF, {}, name, __COUNTER__, library)
#define TORCH_LIBRARY_IMPL_EXPAND(name, key, library)                                       \
  KERNELWORKS_LIBRARY(IMPL, c10::DispatchKey::key, name, __COUNTER__, library)
#define KERNELWORKS_LIBRARY(kind, key, name, id, library) KERNELWORKS_LIBRARY_(kind, key, name, id, library)
#define KERNELWORKS_LIBRARY_(kind, key, name, id, library)                                  \
  static void kernelworks_library_##id(torch::Library &);                                   \
  static const torch::detail::TorchLibraryInit kernelworks_library_init_##id(               \
      torch::Library::kind, &kernelworks_library_##id,                                      \
      kernelworks_text(KERNELWORKS_STRING(name)), key, __FILE__, __LINE__);                 \
  void kernelworks_library_##id(torch::Library &library)

// torch pastes the name into identifiers; these forms let it be a macro, too.
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
