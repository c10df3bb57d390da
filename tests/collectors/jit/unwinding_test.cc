// Stacks through JIT code without frame pointers, on the running kernel. Needs root.

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/jit/processes.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/sampler.h"
#include "tests/collectors/begun_start.h"
#include "tests/collectors/jit/framed_code.h"
#include "tests/collectors/jit/runtime.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd::test {
namespace {

constexpr std::size_t kFunctions = 6;
constexpr std::uint64_t kCodeAt = 0x2000'0000;

class CountingSink : public SampleSink {
 public:
  void on_sample(const SampleView& sample) noexcept override {
    if (sample.user_frames.empty()) return;
    const std::uint64_t address = UserFrame::from_word(sample.user_frames[0]).address;
    if (address < kCodeAt || address >= kCodeAt + 4096) return;
    ++samples;
    std::size_t in_code = 0;
    for (const std::uint64_t word : sample.user_frames) {
      const std::uint64_t at = UserFrame::from_word(word).address;
      in_code += at >= kCodeAt && at < kCodeAt + 4096;
    }
    const bool is_complete =
        sample.user_end == PROFD_END_ENTRY || sample.user_end == PROFD_END_FP_ZERO;
    complete += is_complete && in_code == kFunctions && sample.user_frames.size() > kFunctions;
  }
  void on_mapping(const MappingView& mapping,
                  std::shared_ptr<const MappedFile> /*file*/) noexcept override {
    jit->on_mapping(mapping);
  }
  void on_process(const ProcessView& process) noexcept override { jit->on_process(process); }
  void on_unmap(const UnmapView& unmap) noexcept override { jit->on_unmap(unmap); }

  JitProcesses* jit = nullptr;
  std::size_t samples = 0;
  std::size_t complete = 0;
};

std::string dump_of_framed(const std::vector<FramedFunction>& functions, bool with_unwinding) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  JitDumpWriter writer;
  writer.header({.pid = pid});
  for (const FramedFunction& function : functions) {
    if (with_unwinding) {
      writer.unwinding_info(1, function.eh_frame, function.eh_frame_hdr_bytes, 0);
    }
    writer.load({.timestamp = 1,
                 .pid = pid,
                 .tid = pid,
                 .address = function.address,
                 .code_bytes = 0,
                 .name = function.name,
                 .code = function.code});
  }
  return writer.take();
}

// Runs in the child, and does not return once the file is written and the code is there.
[[noreturn]] void run_jit_code(const std::string& path, bool with_unwinding) {
  constexpr unsigned kAlarmSeconds = 60;
  ::alarm(kAlarmSeconds);
  void* const memory =
      ::mmap(reinterpret_cast<void*>(kCodeAt), 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory == MAP_FAILED) ::_exit(1);
  const std::vector<FramedFunction> functions = make_framed_code(kCodeAt, kFunctions);
  for (const FramedFunction& function : functions) {
    std::memcpy(reinterpret_cast<void*>(function.address), function.code.data(),
                function.code.size());
  }
  write_file(path, dump_of_framed(functions, with_unwinding));
  if (!map_marker(path.c_str())) ::_exit(1);
  reinterpret_cast<void (*)()>(kCodeAt)();
  ::_exit(1);
}

class JitUnwindingTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto jit = JitProcesses::start({
        .send_rows =
            [this](const ProcessKey& process, std::uint32_t owner, std::uint32_t area,
                   EncodeTable encode) {
              sampler_->set_jit_code_rows(process, owner, area, std::move(encode));
              ++tables_;
            },
    });
    ASSERT_TRUE(jit) << jit.error().message;
    jit_ = std::move(*jit);
    sink_.jit = jit_.get();
    auto sampler = Sampler::open({}, sink_);
    ASSERT_TRUE(sampler) << sampler.error().message;
    sampler_ = std::move(*sampler);
  }

  void drain_until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    while (!holds() && std::chrono::steady_clock::now() < end) {
      sampler_->drain();
      jit_->poll();
      ::usleep(20'000);
    }
  }

  CountingSink sink_;
  std::unique_ptr<JitProcesses> jit_;
  std::unique_ptr<Sampler> sampler_;
  std::size_t tables_ = 0;
};

TEST_P(JitUnwindingTest, StacksAreCompleteWhereTheRuntimeWritesUnwindData) {
  constexpr std::size_t kSamples = 400;
  const bool with_unwinding = GetParam();
  const PrivateDirectory directory;
  const std::string path = directory / "dump";
  const pid_t child = ::fork();
  if (child == 0) run_jit_code(path, with_unwinding);
  Target target;
  target.pids = {static_cast<std::uint32_t>(child)};
  const auto event = make_event_spec("cpu-clock", 999, 0);
  ASSERT_TRUE(event);
  const auto slot = start_and_begin(*sampler_, *event, target);
  ASSERT_TRUE(slot) << slot.error().message;
  // The rows of the test's own file come meanwhile too; on a busy machine, after more samples.
  drain_until(
      [&] { return sink_.samples >= kSamples && (!with_unwinding || sink_.complete != 0); });
  EXPECT_EQ(tables_ != 0, with_unwinding);
  sink_.samples = 0;
  sink_.complete = 0;
  drain_until([&] { return sink_.samples >= kSamples; });
  const double share = static_cast<double>(sink_.complete) / static_cast<double>(sink_.samples);
  if (with_unwinding) {
    EXPECT_GE(share, 0.99) << sink_.complete << " of " << sink_.samples;
  } else {
    EXPECT_EQ(sink_.complete, 0U);
  }
  (void)sampler_->stop(*slot);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

INSTANTIATE_TEST_SUITE_P(All, JitUnwindingTest, testing::Bool(), [](const auto& instance) {
  return std::string(instance.param ? "WithUnwindingInfo" : "WithoutIt");
});

}  // namespace
}  // namespace profd::test
