// libprofd_xray in an app, with the test in place of profd. The test decodes the shared memory by
// itself, according to the document of the format.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <optional>

#include <gmock/gmock.h>

#include "collectors/sandbox/packets.h"
#include "collectors/xray/app/wire.h"
#include "tests/collectors/xray/instrumented_app.h"

namespace profd {
namespace {

using test::InstrumentedApp;

constexpr std::uint32_t kSession = 7;

// profd's side of the socket.
class Profd {
 public:
  Profd() {
    char path[] = "/tmp/profd-xray-XXXXXX";
    directory_ = ::mkdtemp(path);
  }
  ~Profd() { std::filesystem::remove_all(directory_); }
  Profd(const Profd&) = delete;
  Profd& operator=(const Profd&) = delete;

  [[nodiscard]] std::filesystem::path socket() const { return directory_ / "app.sock"; }

  void listen() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, socket().c_str());
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener_.get(), 4), 0);
  }
  void accept() { app_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  void disconnect() { app_.reset(); }

  profd_xray_answer ask(profd_xray_command_kind kind) {
    send(kind);
    profd_xray_answer answer{};
    auto received =
        sandbox::receive_packet(app_.get(), {reinterpret_cast<char*>(&answer), sizeof answer});
    EXPECT_TRUE(received && received->bytes == sizeof answer);
    if (received && !received->descriptors.empty()) {
      memory_ = std::move(received->descriptors.front());
    }
    return answer;
  }
  void send(profd_xray_command_kind kind) {
    profd_xray_command command{};
    command.kind = kind;
    command.session = kSession;
    EXPECT_TRUE(sandbox::send_packet(
        app_.get(),
        {reinterpret_cast<const char*>(&command), offsetof(profd_xray_command, functions)}, {}));
  }
  [[nodiscard]] int memory() const { return memory_.get(); }

 private:
  std::filesystem::path directory_;
  UniqueFd listener_;
  UniqueFd app_;
  UniqueFd memory_;
};

struct Counted {
  std::map<std::uint32_t, std::uint64_t> entries;  // by function
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;
  std::uint64_t buffers_dropped = 0;  // as the buffers report
};

void count_records(const unsigned char* at, const unsigned char* end, Counted& counted) {
  while (at < end) {
    if ((*at & 1) != 0) {
      at += 16;
      continue;
    }
    std::uint32_t word = 0;
    std::memcpy(&word, at, sizeof word);
    ++counted.records;
    if ((word >> 1 & 7) == 0) ++counted.entries[word >> 4];
    at += 8;
  }
  EXPECT_EQ(at, end) << "records are whole";
}

Counted count_all(int memory) {
  struct stat status {};
  EXPECT_EQ(::fstat(memory, &status), 0);
  const auto size = static_cast<std::size_t>(status.st_size);
  auto* const bytes =
      static_cast<unsigned char*>(::mmap(nullptr, size, PROT_READ, MAP_SHARED, memory, 0));
  const auto* const header = reinterpret_cast<const profd_xray_region*>(bytes);
  const auto* const slots = reinterpret_cast<const profd_xray_slot*>(header + 1);
  Counted counted;
  for (const profd_xray_stripe& stripe : header->stripes) counted.dropped += stripe.dropped;
  for (std::uint32_t i = 0; i < header->slots; ++i) {
    if ((slots[i].state & PROFD_XRAY_STATE_MASK) == PROFD_XRAY_FREE) continue;
    const unsigned char* const at =
        bytes + profd_xray_buffers_offset(header->slots) + std::uint64_t{i} * header->slot_bytes;
    counted.buffers_dropped += slots[i].dropped;
    count_records(at, at + slots[i].bytes, counted);
  }
  ::munmap(bytes, size);
  return counted;
}

class AppTest : public testing::Test {
 protected:
  // Records all functions of one run.
  Counted run(InstrumentedApp& app) {
    profd_.accept();
    EXPECT_EQ(profd_.ask(PROFD_XRAY_BEGIN).kind, PROFD_XRAY_READY);
    EXPECT_GT(profd_.ask(PROFD_XRAY_PATCH).value, 0);
    app.go();
    rounds_ = app.rounds_done();
    EXPECT_EQ(profd_.ask(PROFD_XRAY_END).kind, PROFD_XRAY_ENDED);
    return count_all(profd_.memory());
  }

  Profd profd_;
  std::uint64_t rounds_ = 0;
};

TEST_F(AppTest, WritesEveryCallOfEveryThread) {
  profd_.listen();
  InstrumentedApp app(profd_.socket(), {"--threads", "4", "--rounds", "2000"});
  const Counted counted = run(app);
  std::uint64_t rounds = 0;
  for (const auto& [function, calls] : counted.entries) rounds += calls == rounds_ ? 1 : 0;
  EXPECT_EQ(rounds, 1) << "outer";
  std::uint64_t leaves = 0;
  for (const auto& [function, calls] : counted.entries) leaves += calls == 8 * rounds_ ? 1 : 0;
  EXPECT_EQ(leaves, 1) << "leaf";
  EXPECT_EQ(counted.dropped, 0);
  EXPECT_EQ(app.end(), 0);
}

TEST_F(AppTest, CountsRecordsThatDoNotFitAndContinues) {
  profd_.listen();
  InstrumentedApp app(profd_.socket(), {"--threads", "2", "--rounds", "300000"});
  const Counted counted = run(app);  // nobody reads
  constexpr std::uint64_t kRecordsOfRound = 2 * (1 + 2 + 8);
  EXPECT_GT(counted.dropped, 0);
  // Each thread has a few functions of the standard library around its rounds.
  EXPECT_GE(counted.records + counted.dropped, rounds_ * kRecordsOfRound);
  EXPECT_LE(counted.records + counted.dropped, rounds_ * kRecordsOfRound + 16);
  EXPECT_EQ(app.end(), 0);
}

TEST_F(AppTest, ReleasesTheMemoryAndUsesItAgain) {
  profd_.listen();
  InstrumentedApp app(profd_.socket(), {"--rounds", "100000"});
  run(app);
  struct stat before {};
  ::fstat(profd_.memory(), &before);
  profd_.send(PROFD_XRAY_RELEASE);
  EXPECT_EQ(profd_.ask(PROFD_XRAY_BEGIN).kind, PROFD_XRAY_READY);
  struct stat after {};
  ::fstat(profd_.memory(), &after);
  EXPECT_LT(after.st_blocks, before.st_blocks / 4);
  EXPECT_EQ(count_all(profd_.memory()).records, 0);
}

TEST_F(AppTest, ConnectsWhenTheSocketAppearsAndAgainWhenItReappears) {
  InstrumentedApp app(profd_.socket(), {"--rounds", "10"});
  profd_.listen();
  profd_.accept();
  EXPECT_EQ(profd_.ask(PROFD_XRAY_BEGIN).kind, PROFD_XRAY_READY);
  profd_.disconnect();
  run(app);
}

TEST_F(AppTest, SealsTheMemory) {
  profd_.listen();
  InstrumentedApp app(profd_.socket(), {});
  profd_.accept();
  profd_.ask(PROFD_XRAY_BEGIN);
  EXPECT_NE(::ftruncate(profd_.memory(), 0), 0);
  EXPECT_NE(::ftruncate(profd_.memory(), 1 << 30), 0);
}

}  // namespace
}  // namespace profd
