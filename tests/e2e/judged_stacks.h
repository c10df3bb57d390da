// Judges the names in samples by the samples' own stacks. The JIT-compiled functions of the test
// programs come in kinds, and each is called by and calls native functions of its kind. So a stack
// shows whether its names are right, independently of the runtime's files.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace profd::e2e {

struct Judged {
  std::uint64_t right = 0;
  std::uint64_t wrong = 0;
  std::string first_wrong;
};

enum class Verdict { kUnknown, kRight, kWrong };

// Judges the stacks in the output of `pprof -traces -sample_index=samples`. `verdict` gets one
// stack, the innermost frame first.
Judged judge(const std::string& traces,
             const std::function<Verdict(const std::string& stack)>& verdict);

// For the workload "reuse": gen_I between run_K and marker_K with K = I mod 32.
Verdict verdict_of_reuse(const std::string& stack);

// For programs/churn.js: made_KIND_I between run_KIND and V8's ieee754::KIND. Only the outermost of
// adjacent ieee754 functions counts: some call others.
Verdict verdict_of_churn(const std::string& stack);

}  // namespace profd::e2e
