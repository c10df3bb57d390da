// The reader's side of an app's memory: a valid one, and the content that a hostile app may write.

#include "collectors/xray/live_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <random>

#include <gmock/gmock.h>

#include "collectors/xray/live_reader.h"

namespace profd::xray {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kSession = 9;
constexpr std::uint32_t kSlots = 4;
constexpr std::uint32_t kSlotBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The app's side.
class Memory {
 public:
  explicit Memory(int seals = kSeals, std::int64_t more_bytes = 0) {
    fd_.reset(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    bytes_ = profd_xray_region_bytes(kSlots, kSlotBytes);
    EXPECT_EQ(::ftruncate(fd_.get(), static_cast<std::int64_t>(bytes_) + more_bytes), 0);
    EXPECT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, seals), 0);
    memory_ = static_cast<unsigned char*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
    header().magic = PROFD_XRAY_MAGIC;
    header().clock = PROFD_XRAY_CLOCK_MONOTONIC;
    header().slots = kSlots;
    header().slot_bytes = kSlotBytes;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(memory_, bytes_); }

  profd_xray_region& header() { return *reinterpret_cast<profd_xray_region*>(memory_); }
  profd_xray_slot& slot(std::uint32_t i) {
    return reinterpret_cast<profd_xray_slot*>(memory_ + sizeof(profd_xray_region))[i];
  }
  // A buffer of thread `thread` with a preamble and `calls` calls of function 1.
  void write(std::uint32_t i, std::uint64_t thread, std::uint64_t sequence,
             profd_xray_slot_state state, unsigned calls) {
    std::string records;
    const auto metadata = [&](char kind) {
      records += kind;
      records.append(15, '\0');
    };
    metadata(0x01);
    metadata(0x09);
    metadata(0x13);
    metadata(0x05);
    for (unsigned call = 0; call < calls; ++call) {
      records.append({0x10, 0, 0, 0, 5, 0, 0, 0});
      records.append({0x12, 0, 0, 0, 5, 0, 0, 0});
    }
    const std::uint64_t at = profd_xray_buffers_offset(kSlots) + std::uint64_t{i} * kSlotBytes;
    std::copy(records.begin(), records.end(), memory_ + at);
    profd_xray_slot& written = slot(i);
    written.thread = thread;
    written.sequence = sequence;
    written.session = kSession;
    written.state = (written.state & ~std::uint64_t{PROFD_XRAY_STATE_MASK}) | state;
    written.bytes = records.size();
  }
  UniqueFd fd() { return UniqueFd(::dup(fd_.get())); }
  std::uint64_t state(std::uint32_t i) { return slot(i).state & PROFD_XRAY_STATE_MASK; }

 private:
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
  unsigned char* memory_ = nullptr;
};

struct Read {
  LiveReader reader{1, LiveLimits::of(std::uint64_t{64} << 20)};
  std::vector<LiveRecords> taken;  // without the bytes
  LiveRegion::Take take = [this](const LiveRecords& records) {
    reader.take(records);
    taken.push_back(records);
    taken.back().bytes = {};
  };
};

LiveRegion opened(Memory& memory) {
  auto region = LiveRegion::open(memory.fd(), kSession);
  EXPECT_TRUE(region) << (region ? "" : region.error().message);
  return std::move(*region);
}

struct Live {
  Memory memory;
  LiveRegion region = opened(memory);
  Read read;
};

class LiveRegionTest : public testing::Test, protected Live {};

TEST_F(LiveRegionTest, ReadsFullBuffersAndFreesTheirSlots) {
  memory.write(0, 1, 0, PROFD_XRAY_FULL, 10);
  memory.write(1, 1, 1, PROFD_XRAY_LIVE, 3);
  ASSERT_TRUE(region.drain(read.take));
  EXPECT_EQ(memory.state(0), PROFD_XRAY_FREE);
  EXPECT_EQ(memory.state(1), PROFD_XRAY_LIVE);
  const Measured measured = read.reader.finish(region.dropped());
  EXPECT_EQ(measured.report.entries, 13);
  EXPECT_EQ(measured.report.exits, 13);
  EXPECT_EQ(measured.report[Issue::kGap], 0);
}

TEST_F(LiveRegionTest, ContinuesALiveBufferWhereItStopped) {
  memory.write(0, 1, 0, PROFD_XRAY_LIVE, 3);
  ASSERT_TRUE(region.drain(read.take));
  memory.write(0, 1, 0, PROFD_XRAY_LIVE, 5);
  ASSERT_TRUE(region.drain(read.take));
  ASSERT_TRUE(region.drain(read.take));
  memory.write(0, 1, 0, PROFD_XRAY_FULL, 9);
  ASSERT_TRUE(region.drain(read.take));
  EXPECT_EQ(read.taken.size(), 3);
  EXPECT_EQ(read.reader.finish(0).report.entries, 9);
}

TEST_F(LiveRegionTest, WaitsForABufferThatIsNotFullYet) {
  memory.write(0, 1, 1, PROFD_XRAY_FULL, 2);
  ASSERT_TRUE(region.drain(read.take));
  EXPECT_TRUE(read.taken.empty());
  memory.write(2, 1, 0, PROFD_XRAY_FULL, 2);
  ASSERT_TRUE(region.drain(read.take));
  EXPECT_EQ(read.taken.size(), 2);
  EXPECT_FALSE(read.taken[1].gap);
}

TEST_F(LiveRegionTest, ReportsAMissingBufferAtTheEnd) {
  memory.write(0, 1, 3, PROFD_XRAY_FULL, 2);
  ASSERT_TRUE(region.finish(read.take));
  ASSERT_EQ(read.taken.size(), 1);
  EXPECT_TRUE(read.taken[0].gap);
  EXPECT_EQ(read.reader.finish(0).report[Issue::kGap], 1);
}

TEST_F(LiveRegionTest, DoesNotReadBuffersOfAnEarlierSession) {
  memory.write(0, 1, 0, PROFD_XRAY_LIVE, 2);
  memory.slot(0).session = kSession - 1;
  ASSERT_TRUE(region.finish(read.take));
  EXPECT_TRUE(read.taken.empty());
  EXPECT_EQ(memory.state(0), PROFD_XRAY_LIVE);
}

TEST_F(LiveRegionTest, CountsTheRecordsThatTheAppDropped) {
  memory.header().stripes[0].dropped = 5;
  memory.header().stripes[15].dropped = 7;
  memory.write(0, 1, 0, PROFD_XRAY_FULL, 1);
  memory.slot(0).dropped = 4;
  ASSERT_TRUE(region.finish(read.take));
  EXPECT_EQ(region.dropped(), 12);
  EXPECT_EQ(read.reader.finish(region.dropped()).report[Issue::kLostRecords], 12);
}

struct Refused {
  const char* what;
  const char* said;
  int seals;
  std::int64_t more_bytes;
  std::function<void(Memory&)> spoil;
};

const Refused kRefused[] = {
    {"no seals", "not sealed", 0, 0, {}},
    {"may shrink", "not sealed", F_SEAL_GROW | F_SEAL_SEAL, 0, {}},
    {"may grow", "not sealed", F_SEAL_SHRINK | F_SEAL_SEAL, 0, {}},
    {"more bytes", "not have the size", kSeals, 4096, {}},
    {"fewer bytes", "not have the size", kSeals, -4096, {}},
    {"no page",
     "too short",
     kSeals,
     -static_cast<std::int64_t>(profd_xray_region_bytes(4, 4096)),
     {}},
    {"version 2", "another version", kSeals, 0, [](Memory& memory) { ++memory.header().magic; }},
    {"no clock", "unknown clock", kSeals, 0, [](Memory& memory) { memory.header().clock = 3; }},
    {"no slots", "invalid number or size", kSeals, 0,
     [](Memory& memory) { memory.header().slots = 0; }},
    {"2^32 slots", "invalid number or size", kSeals, 0,
     [](Memory& memory) { memory.header().slots = ~0U; }},
    {"huge slots", "invalid number or size", kSeals, 0,
     [](Memory& memory) { memory.header().slot_bytes = 1U << 31; }},
    {"empty slots", "invalid number or size", kSeals, 0,
     [](Memory& memory) { memory.header().slot_bytes = 0; }},
};

TEST(LiveRegion, RefusesInvalidMemory) {
  for (const Refused& refused : kRefused) {
    SCOPED_TRACE(refused.what);
    UniqueFd fd;
    if (refused.more_bytes < 0) {  // too short to be filled by mapping it
      fd.reset(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      const auto size = static_cast<std::int64_t>(profd_xray_region_bytes(kSlots, kSlotBytes));
      profd_xray_region header{};
      header.magic = PROFD_XRAY_MAGIC;
      header.clock = PROFD_XRAY_CLOCK_TSC;
      header.slots = kSlots;
      header.slot_bytes = kSlotBytes;
      ::ftruncate(fd.get(), size + refused.more_bytes);
      if (size + refused.more_bytes != 0) ::pwrite(fd.get(), &header, sizeof header, 0);
      ::fcntl(fd.get(), F_ADD_SEALS, refused.seals);
    } else {
      Memory memory(refused.seals, refused.more_bytes);
      if (refused.spoil) refused.spoil(memory);
      fd = memory.fd();
    }
    const auto region = LiveRegion::open(std::move(fd), kSession);
    ASSERT_FALSE(region);
    EXPECT_THAT(region.error().message, HasSubstr(refused.said));
  }
}

TEST(LiveRegion, RefusesDescriptorsThatAreNotMemfds) {
  for (const char* path : {"/dev/null", "/proc/self/exe", "/tmp"}) {
    EXPECT_FALSE(LiveRegion::open(UniqueFd(::open(path, O_RDONLY | O_CLOEXEC)), kSession)) << path;
  }
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_FALSE(LiveRegion::open(UniqueFd(ends[0]), kSession));
  EXPECT_FALSE(LiveRegion::open(UniqueFd(ends[1]), kSession));
}

TEST_F(LiveRegionTest, FailsWhenABufferIsLongerThanItsSlotOrBecomesShorter) {
  memory.write(0, 1, 0, PROFD_XRAY_LIVE, 5);
  ASSERT_TRUE(region.drain(read.take));
  memory.slot(0).bytes = 64;
  EXPECT_FALSE(region.drain(read.take));
  memory.slot(0).bytes = kSlotBytes + 1;
  EXPECT_FALSE(region.drain(read.take));
  memory.slot(0).bytes = ~std::uint64_t{0};
  EXPECT_FALSE(region.drain(read.take));
}

TEST_F(LiveRegionTest, AnInvalidBufferDoesNotAffectOthers) {
  memory.write(0, 1, 0, PROFD_XRAY_FULL, 5);
  memory.write(1, 2, 0, PROFD_XRAY_FULL, 5);
  memory.slot(1).bytes = kSlotBytes + 1;
  EXPECT_FALSE(region.drain(read.take));
  EXPECT_EQ(read.reader.finish(0).report.entries, 5);
}

TEST_F(LiveRegionTest, RecordsOfThreadsOverTheLimitAreCountedAndTheOthersAreRead) {
  LiveReader small(1, {.stacks = 100, .frames = 100, .threads = 1});
  const auto take = [&small](const LiveRecords& records) { small.take(records); };
  memory.write(0, 1, 0, PROFD_XRAY_FULL, 5);
  memory.write(1, 2, 0, PROFD_XRAY_FULL, 7);
  memory.write(2, 1, 1, PROFD_XRAY_FULL, 5);
  ASSERT_TRUE(region.finish(take));
  const Measured measured = small.finish(0);
  EXPECT_EQ(measured.report.entries, 10);
  EXPECT_GE(measured.report[Issue::kTooManyThreads], 14);
}

TEST_F(LiveRegionTest, RecordsOfThreadsBeyondItsTableAreCounted) {
  for (std::uint64_t thread = 1; thread <= LiveRegion::kMaxThreads; ++thread) {
    memory.write(0, thread, 0, PROFD_XRAY_FULL, 0);
    ASSERT_TRUE(region.drain([](const LiveRecords&) {}));
  }
  EXPECT_EQ(region.refused_records(), 0);
  memory.write(0, LiveRegion::kMaxThreads + 1, 0, PROFD_XRAY_FULL, 5);
  memory.write(1, LiveRegion::kMaxThreads + 2, 0, PROFD_XRAY_LIVE, 7);
  ASSERT_TRUE(region.drain(read.take));
  EXPECT_EQ(region.refused_records(), 10);
  EXPECT_EQ(memory.state(0), PROFD_XRAY_FREE);
  ASSERT_TRUE(region.finish(read.take));
  EXPECT_EQ(region.refused_records(), 24);
  EXPECT_TRUE(read.taken.empty());
}

TEST(LiveLimits, GrowWithTheMemoryUpToAMaximum) {
  EXPECT_EQ(LiveLimits::of(0).stacks, 0);
  EXPECT_LT(LiveLimits::of(std::uint64_t{16} << 20).stacks,
            LiveLimits::of(std::uint64_t{32} << 20).stacks);
  EXPECT_EQ(LiveLimits::of(std::uint64_t{1} << 40).stacks,
            LiveLimits::of(~std::uint64_t{0}).stacks);
}

TEST_F(LiveRegionTest, IgnoresLaterChangesOfTheHeader) {
  memory.write(0, 1, 0, PROFD_XRAY_FULL, 5);
  memory.header().slots = ~0U;
  memory.header().slot_bytes = ~0U;
  EXPECT_TRUE(region.drain(read.take));
  EXPECT_EQ(read.reader.finish(0).report.entries, 5);
}

TEST_F(LiveRegionTest, AMalformedBufferLosesOnlyItsOwnRecords) {
  memory.write(0, 1, 0, PROFD_XRAY_FULL, 10);
  memory.write(1, 2, 0, PROFD_XRAY_FULL, 10);
  memory.write(2, 1, 1, PROFD_XRAY_FULL, 10);
  // An unknown kind of record in the middle of thread 1's first buffer.
  const UniqueFd fd = memory.fd();
  const char unknown = 0x7f;
  ::pwrite(fd.get(), &unknown, 1,
           static_cast<off_t>(profd_xray_buffers_offset(kSlots) + 64 + 5 * 16));
  ASSERT_TRUE(region.finish(read.take));
  const Measured measured = read.reader.finish(0);
  EXPECT_EQ(measured.report.entries, 25);
  EXPECT_EQ(measured.report[Issue::kMalformedBuffer], 1);
}

// Every word of the table is overwritten with random values between the reads.
TEST(LiveRegion, SurvivesAnyContent) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    Live live;
    Memory& memory = live.memory;
    for (int turn = 0; turn < 8; ++turn) {
      for (std::uint32_t i = 0; i < kSlots; ++i) {
        memory.write(i, random() % 3, random() % 4,
                     static_cast<profd_xray_slot_state>(random() % 4),
                     static_cast<unsigned>(random() % 200));
        if (random() % 4 == 0) memory.slot(i).bytes = random() % (kSlotBytes + 2);
        const std::uint64_t junk = random();
        const UniqueFd fd = memory.fd();
        ::pwrite(fd.get(), &junk, sizeof junk,
                 static_cast<off_t>(profd_xray_buffers_offset(kSlots) + i * kSlotBytes +
                                    random() % (kSlotBytes - 8)));
      }
      if (!live.region.drain(live.read.take)) break;
    }
    (void)live.region.finish(live.read.take);
    (void)live.read.reader.finish(random());
  }
}

}  // namespace
}  // namespace profd::xray
