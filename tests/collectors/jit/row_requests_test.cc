// Requests for the tables of processes' JIT code: what they are made from, and how many there are.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/jit/processes.h"
#include "tests/collectors/jit/hostile_dump.h"
#include "tests/collectors/jit/runtime.h"
#include "tests/collectors/jit/scattered_rows.h"
#include "tests/formats/unwind/find_rule.h"

namespace profd::test {
namespace {

using testing::SizeIs;
using namespace std::chrono_literals;

constexpr std::uint64_t kRowsArea = 3;
constexpr std::uint64_t kRowsAt = (kRowsArea << 32) + 0x4000;

struct SentRequest {
  ProcessKey process;
  std::uint32_t area = 0;
  EncodeTable encode;
};

class JitRowRequests : public HostileDump {
 protected:
  void SetUp() override {
    auto started =
        JitProcesses::start({.send_rows = [this](const ProcessKey& process, std::uint32_t /*owner*/,
                                                 std::uint32_t area, EncodeTable encode) {
          requests_.push_back({.process = process, .area = area, .encode = std::move(encode)});
        }});
    ASSERT_TRUE(started) << started.error().message;
    processes_ = std::move(*started);
    path_ = directory_ / ("jit-" + std::to_string(runtime_.pid()) + ".dump");
  }

  // Polls as if the longest pause between two requests were over, again and again.
  void poll_later() {
    for (int i = 0; i < 10; ++i) {
      later_ += JitProcesses::kLastRows;
      while (!processes_->poll(JitProcesses::Clock::now() + later_)) {
      }
    }
  }

  // Appends a record of rows, and waits until it is applied.
  void append_rows(std::uint64_t address, const std::string& name) {
    const std::uint64_t addresses[] = {address};
    append_file(path_,
                record_of_rows(addresses) + load_of(pid(), {.name = name, .time_ns = ++time_ns_}));
    ASSERT_TRUE(is_named(name));
  }

  // Whether the table of the only request has rows at an address.
  [[nodiscard]] bool has_rows_at(std::uint64_t address) {
    const auto encoded = requests_.at(0).encode();
    EXPECT_TRUE(encoded);
    const auto table = read_unwind_table(*encoded);
    EXPECT_TRUE(table);
    return find_rule(*table, static_cast<std::uint32_t>(address)).kind == PROFD_RULE_REGISTER;
  }

  std::vector<SentRequest> requests_;
  std::chrono::seconds later_{0};
  std::uint64_t time_ns_ = 10;
};

TEST_F(JitRowRequests, CodeThatComesWhileATableIsMadeIsInTheNextOne) {
  const std::uint64_t first[] = {kRowsAt};
  write(dump_header(pid()) + record_of_rows(first));
  ASSERT_TRUE(wait_for(*processes_, [this] { return !requests_.empty(); }));
  append_rows(kRowsAt + 0x100, "second");
  poll_later();
  ASSERT_THAT(requests_, SizeIs(1)) << "there is one at a time";
  EXPECT_EQ(requests_[0].area, kRowsArea);
  EXPECT_FALSE(has_rows_at(kRowsAt + 0x100)) << "it is as the code was when it was requested";
  poll_later();
  ASSERT_THAT(requests_, SizeIs(1)) << "its table is not installed yet";
  requests_.clear();
  poll_later();
  ASSERT_THAT(requests_, SizeIs(1));
  EXPECT_TRUE(has_rows_at(kRowsAt + 0x100));
  requests_.clear();
  poll_later();
  EXPECT_THAT(requests_, SizeIs(0)) << "nothing has changed";
}

TEST_F(JitRowRequests, AnAreaWithoutCodeGetsATableWithoutRows) {
  const std::uint64_t first[] = {kRowsAt};
  write(dump_header(pid()) + record_of_rows(first));
  ASSERT_TRUE(wait_for(*processes_, [this] { return !requests_.empty(); }));
  EXPECT_TRUE(has_rows_at(kRowsAt));
  requests_.clear();
  processes_->on_unmap(
      {.process = runtime_.key(), .time_ns = 100, .start = kRowsAt, .end = kRowsAt + 0x1000});
  poll_later();
  ASSERT_THAT(requests_, SizeIs(1));
  EXPECT_EQ(requests_[0].area, kRowsArea);
  EXPECT_FALSE(has_rows_at(kRowsAt));
  requests_.clear();
  append_rows(kRowsAt + (std::uint64_t{1} << 32), "elsewhere");
  poll_later();
  ASSERT_THAT(requests_, SizeIs(1)) << "an area is cleared once";
  EXPECT_EQ(requests_[0].area, kRowsArea + 1);
}

// A process with a jitdump that has rows.
class RuntimeWithRows {
 public:
  RuntimeWithRows(JitProcesses& processes, std::uint32_t uid) {
    const std::uint64_t addresses[] = {kRowsAt};
    write_file(directory_ / ("jit-" + std::to_string(runtime_.pid()) + ".dump"),
               dump_header(runtime_.pid()) + record_of_rows(addresses) +
                   load_of(runtime_.pid(), {.name = "last"}));
    ProcessView process{};
    process.process = runtime_.key();
    process.uid = uid;
    processes.on_process(process);
    processes.on_mapping(jit_code_of(runtime_.key()));
    EXPECT_TRUE(
        wait_for(processes, [&] { return name_at(processes, runtime_.key(), 0x10000) == "last"; }));
  }

 private:
  PrivateDirectory directory_;
  Runtime runtime_{[this] { return ::chdir(directory_.path().c_str()) == 0; }};
};

TEST_F(JitRowRequests, AUsersTablesKeepNoOthersWaiting) {
  RuntimeWithRows first(*processes_, kOther);
  RuntimeWithRows second(*processes_, kOther);
  poll_later();
  EXPECT_THAT(requests_, SizeIs(1));
  RuntimeWithRows third(*processes_, kOther + 1);
  poll_later();
  ASSERT_THAT(requests_, SizeIs(2));
  const ProcessKey process = requests_.front().process;
  requests_.erase(requests_.begin());
  poll_later();
  ASSERT_THAT(requests_, SizeIs(2)) << "the user's other process has its turn";
  EXPECT_NE(requests_.back().process, process);
}

TEST_F(JitRowRequests, TablesOfSomeUsersAtMostAreRequestedAtOnce) {
  std::vector<std::unique_ptr<RuntimeWithRows>> runtimes;
  for (std::uint32_t i = 0; i < JitProcesses::kMaxRequests + 2; ++i) {
    runtimes.push_back(std::make_unique<RuntimeWithRows>(*processes_, 1000 + i));
  }
  poll_later();
  EXPECT_THAT(requests_, SizeIs(JitProcesses::kMaxRequests));
  requests_.clear();
  poll_later();
  EXPECT_THAT(requests_, SizeIs(2));
}

}  // namespace
}  // namespace profd::test
