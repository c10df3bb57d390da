// Makes a trace as XRay's runtime would: xray_trace_maker FILE MEGABYTES BUFFER_BYTES
//
// Four threads walk through 546 functions in 13 levels, in some 3,000 stacks, with one turn in
// eight at random; a record each 20 to 200 ns.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/formats/xray/fdr_writer.h"

namespace {

using profd::xray::Action;
using profd::xray::Writer;

constexpr std::size_t kThreads = 4;
constexpr std::uint32_t kLevels = 13;
constexpr std::uint32_t kPerLevel = 42;
constexpr std::uint32_t kForks = 9;  // levels whose functions call one of two

// One thread's walk. Buffers follow one another without a gap.
class Walk {
 public:
  explicit Walk(std::uint64_t seed) : random_(seed) {}

  // All calls have ended at the end of the last one.
  std::string buffer(std::int32_t thread, std::size_t bytes, bool is_last) {
    const auto wall_ns = static_cast<std::int64_t>(now_) - 1'000'000'000;
    writer_.preamble({100, thread, wall_ns, now_, 0});
    for (std::size_t left = bytes / 8 - 8; left > 0; --left) step(is_last && left <= kLevels);
    return writer_.take_buffer();
  }

 private:
  struct Call {
    std::uint32_t function = 0;
    std::uint32_t made = 0;  // calls
    std::uint32_t all = 0;
  };

  void step(bool ends) {
    if (ends && stack_.empty()) return;
    const auto delta = static_cast<std::uint32_t>(20 + random_() % 180);
    now_ += delta;
    const bool calls = !ends && (stack_.empty() || stack_.back().made < stack_.back().all);
    if (calls) stack_.push_back(call());
    writer_.function(calls ? Action::kEnter : Action::kExit, stack_.back().function, delta);
    if (!calls) stack_.pop_back();
  }

  // Mostly the same as the last time, as programs do.
  std::uint32_t usually(std::uint32_t choice) {
    return random_() % 8 == 0 ? static_cast<std::uint32_t>(random_() % 2) : choice;
  }

  Call call() {
    const auto level = static_cast<std::uint32_t>(stack_.size());
    std::uint32_t function = 1;
    if (level != 0) {
      Call& caller = stack_.back();
      const std::uint32_t choice = level <= kForks ? usually(caller.made % 2) : 0;
      function = 1 + level * kPerLevel + (caller.function * 2 + choice) % kPerLevel;
      ++caller.made;
    }
    return {function, 0, level + 1 < kLevels ? 1 + usually(function % 2) : 0};
  }

  std::minstd_rand random_;
  Writer writer_{profd::xray::Format{}};
  std::vector<Call> stack_;
  std::uint64_t now_ = 1'000'000'000'000;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::size_t bytes = std::strtoull(argv[2], nullptr, 10) << 20;
  const std::size_t buffer_bytes = std::strtoull(argv[3], nullptr, 10);
  std::ofstream file(argv[1], std::ios::binary);
  file << profd::xray::encode_header({{}, true, true, 1'000'000'000, buffer_bytes});
  std::array<Walk, kThreads> walks{Walk(1), Walk(2), Walk(3), Walk(4)};
  for (std::size_t at = 0; at < bytes; at += kThreads * buffer_bytes) {
    for (std::size_t i = 0; i < kThreads; ++i) {
      file << walks[i].buffer(static_cast<std::int32_t>(101 + i), buffer_bytes,
                              at + kThreads * buffer_bytes >= bytes);
    }
  }
  file.close();
  return file ? 0 : 1;
}
