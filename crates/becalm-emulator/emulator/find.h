// How a kernel is called with arguments that come as pointers, as for the driver.
#pragma once
#include <utility>

#include "emulator.h"

namespace {

template <class... A, size_t... I>
void with(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<A*>(arguments[I])...);
}

/// A kernel of this type with its arguments, and the call that a thread makes.
template <class... A>
emulator::Body* find(void (*kernel)(A...), void (**out)()) {
  *out = reinterpret_cast<void (*)()>(kernel);
  return [](void* context) {
    const auto* call = static_cast<const emulator::Call*>(context);
    with(reinterpret_cast<void (*)(A...)>(call->kernel), call->arguments, std::index_sequence_for<A...>());
  };
}

}  // namespace

/// One kernel of those that a function finds by `name`.
#define CASE(kernel) \
  if (strcmp(name, #kernel) == 0) return find(kernel, out);
