#include "ctl/process/jvm_asker.h"

#include <algorithm>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::size_t kMaxErrorBytes = 300;

bool is_busy_jvm(const ProcessShare& process) {
  return process.pid != 0 && process.jit && process.jit->runtime == "Java" &&
         process.cpu_percent > JvmAsker::kMinCpuPercent;
}

std::string name_of_jvm(const AskedJvm& jvm) {
  return printable_utf8(jvm.comm, kMaxPrintableBytes) + " " + std::to_string(jvm.pid);
}

}  // namespace

JvmAsker::JvmAsker(Ask ask) : ask_(std::move(ask)) {}

std::vector<AskedJvm> JvmAsker::turn(const WindowShares& window, Clock::time_point now,
                                     const std::function<bool()>& is_stopped) {
  std::erase_if(left_alone_until_, [now](const auto& entry) { return entry.second <= now; });
  std::vector<AskedJvm> asked;
  for (const ProcessShare& process : window.processes) {
    if (asked.size() == kMaxOfTurn || is_stopped()) break;
    const Process key(process.pid, process.start_time_ns);
    if (!is_busy_jvm(process) || left_alone_until_.contains(key)) continue;
    Result<void> answer = ask_(static_cast<pid_t>(process.pid));
    if (!answer) left_alone_until_.emplace(key, now + kPause);
    asked.push_back({.pid = process.pid, .comm = process.comm, .answer = std::move(answer)});
  }
  std::ranges::sort(asked, {}, &AskedJvm::pid);
  return asked;
}

std::string text_of(const std::vector<AskedJvm>& asked) {
  std::string answered;
  std::string refused;
  std::size_t count = 0;
  for (const AskedJvm& jvm : asked) {
    if (!jvm.answered()) {
      refused += "; " + name_of_jvm(jvm) + ": " +
                 printable_utf8(jvm.answer.error().message, kMaxErrorBytes);
      continue;
    }
    answered += (count++ == 0 ? "" : ", ") + name_of_jvm(jvm);
  }
  if (asked.empty()) return {};
  std::string text = std::to_string(count) + (count == 1 ? " JVM has written its symbols"
                                                         : " JVMs have written their symbols");
  if (count != 0) text += ": " + answered;
  return text + refused;
}

}  // namespace profd
