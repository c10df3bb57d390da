#include "tests/e2e/judged_stacks.h"

#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

namespace profd::e2e {

Judged judge(const std::string& traces,
             const std::function<Verdict(const std::string& stack)>& verdict) {
  Judged judged;
  const std::string line = "-----------+";
  for (std::size_t at = traces.find(line); at != std::string::npos;) {
    const std::size_t next = traces.find(line, at + 1);
    const std::string stack = traces.substr(traces.find('\n', at) + 1, next - at);
    at = next;
    const Verdict found = verdict(stack);
    if (found == Verdict::kUnknown) continue;
    const std::uint64_t samples = std::strtoull(stack.c_str(), nullptr, 10);
    (found == Verdict::kRight ? judged.right : judged.wrong) += samples;
    if (found == Verdict::kWrong && judged.first_wrong.empty()) judged.first_wrong = stack;
  }
  return judged;
}

Verdict verdict_of_reuse(const std::string& stack) {
  constexpr int kKinds = 32;
  static const std::regex function("(marker|run|gen)_([0-9]+)");
  std::set<int> kinds;
  bool is_made = false;
  for (auto it = std::sregex_iterator(stack.begin(), stack.end(), function);
       it != std::sregex_iterator(); ++it) {
    is_made = is_made || (*it)[1] == "gen";
    kinds.insert(std::stoi((*it)[2]) % kKinds);
  }
  if (!is_made) return Verdict::kUnknown;
  return kinds.size() == 1 ? Verdict::kRight : Verdict::kWrong;
}

Verdict verdict_of_churn(const std::string& stack) {
  static const std::regex native("ieee754::([a-z0-9]+)$");
  // "JS:^made_...", before node 20 "Function:^made_...", and not node:internal/main/run_main.
  static const std::regex script(":.(made|run)_([a-z0-9]+)");
  std::string callee;
  std::set<std::string> made;
  std::set<std::string> around;
  std::istringstream frames(stack);
  for (std::string frame; std::getline(frames, frame);) {
    std::smatch found;
    if (std::regex_search(frame, found, native)) {
      callee = found[1];
    } else if (std::regex_search(frame, found, script)) {
      (found[1] == "made" ? made : around).insert(found[2]);
    }
  }
  if (!callee.empty()) around.insert(callee);
  if (made.empty() || around.empty()) return Verdict::kUnknown;
  return made.size() == 1 && made == around ? Verdict::kRight : Verdict::kWrong;
}

}  // namespace profd::e2e
