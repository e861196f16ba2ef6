// The kernels of CKKS on the emulator: `build.rs` compiles this once for each size of polynomials, with BECALM_LOG2_N and BECALM_FIND,
// the name of the function below.
#include "find.h"

// One program holds several sizes: functions of the same name in them must not be merged.
namespace {
#include "rns/kernels.cuh"
}  // namespace

/// A kernel by its name; null if there is none of that name.
extern "C" emulator::Body* BECALM_FIND(const char* name, void (**out)()) {
  CASE(becalm_convert)
  CASE(becalm_key_product)
  CASE(becalm_key_baby)
  CASE(becalm_key_baby_8)
  CASE(becalm_sum)
  CASE(becalm_ntt_rows)
  CASE(becalm_intt_rows)
  return nullptr;
}
