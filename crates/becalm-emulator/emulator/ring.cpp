// The kernels of one ring on the emulator: `build.rs` compiles this once for each ring, with the macros of `shape.cuh` and
// BECALM_RING, the name of the function below.
#include "emulator.h"

#include <tuple>

// One program holds several rings: functions of the same name in them must not be merged.
namespace {
#include "kernels.cuh"

template <class... A>
struct Call {
  void (*kernel)(A...);
  void** arguments;
  template <size_t... I>
  void with(std::index_sequence<I...>) const {
    kernel(*static_cast<A*>(arguments[I])...);
  }
};

template <class... A>
void launch(void (*kernel)(A...), const emulator::Launch& shape, void** arguments) {
  Call<A...> call{kernel, arguments};
  auto thread = [](void* call) { static_cast<const Call<A...>*>(call)->with(std::index_sequence_for<A...>()); };
  emulator::run(shape, thread, &call);
}

}  // namespace

/// Runs a kernel by name; false if this ring has none of that name. `arguments`: a pointer to each, as for the driver.
extern "C" bool BECALM_RING(const char* name, const emulator::Launch* shape, void** arguments) {
#define CASE(kernel) \
  if (strcmp(name, #kernel) == 0) return launch(kernel, *shape, arguments), true;
  CASE(becalm_load_table)
  CASE(becalm_sample_extract)
  CASE(becalm_rotate_cluster)
#if BECALM_BLOCKS >= 1
  CASE(becalm_rotate_block)
#endif
#if BECALM_BLOCKS >= 2
  CASE(becalm_rotate_pair)
#endif
#if BECALM_GROUP_GGSWS > 0
  CASE(becalm_bundle_one)
  CASE(becalm_bundle_many)
#endif
#if BECALM_GROUP_GGSWS > 0 && BECALM_ARITHMETIC == 0
  CASE(becalm_bundle_tensor)
#endif
#if BECALM_STREAMED
  CASE(becalm_rotate_leaves_16)
  CASE(becalm_rotate_leaves_4)
  CASE(becalm_bundle_stream)
#endif
#ifdef BECALM_MICRO
  CASE(becalm_micro_fp64)
  CASE(becalm_micro_read)
  CASE(becalm_micro_barrier)
  CASE(becalm_micro_remote)
#endif
  CASE(becalm_key_switch_start)
  CASE(becalm_key_switch_32)
  CASE(becalm_key_switch_64)
  CASE(becalm_modulus_switch)
  CASE(becalm_linear)
  CASE(becalm_to_fourier)
  CASE(becalm_from_fourier)
  return false;
}
