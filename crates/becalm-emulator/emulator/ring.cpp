// The kernels of one ring on the emulator: `build.rs` compiles this once for each ring, with the macros of `shape.cuh` and
// BECALM_FIND, the name of the function below.
#include "find.h"

// One program holds several rings: functions of the same name in them must not be merged.
namespace {
#include "kernels.cuh"
#ifdef BECALM_TRIALS
#include "trials.cuh"
#endif
}  // namespace

/// A kernel by its name; null if this ring has none of that name.
extern "C" emulator::Body* BECALM_FIND(const char* name, void (**out)()) {
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
  CASE(becalm_rotate_batch)
  CASE(becalm_bundle_ahead)
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
#ifdef BECALM_TRIALS
  CASE(becalm_try_ring)
  CASE(becalm_try_all_to_all)
  CASE(becalm_try_exchange)
  CASE(becalm_try_produce)
  CASE(becalm_try_consume)
  CASE(becalm_try_chain)
  CASE(becalm_try_poll)
  CASE(becalm_try_multiply)
  CASE(becalm_try_mistake)
#endif
  CASE(becalm_key_switch_start)
  CASE(becalm_key_switch_32)
  CASE(becalm_key_switch_64)
  CASE(becalm_modulus_switch)
  CASE(becalm_linear)
  CASE(becalm_to_fourier)
  CASE(becalm_from_fourier)
  return nullptr;
}
