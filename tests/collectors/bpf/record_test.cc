// One valid record of each kind, then a table of changes that make each malformed: all are refused,
// and none is read outside its bytes.

#include "collectors/bpf/record.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::size_t kKernelFrames = 2;
constexpr std::size_t kUserFrames = 3;
constexpr std::size_t kMappings = 1;

// A record under construction: whole words, as the ring aligns it.
class Bytes {
 public:
  template <class T>
  explicit Bytes(const T& fixed) {
    append(&fixed, sizeof(fixed));
  }
  void append(const void* data, std::size_t size) {
    const std::size_t at = size_;
    size_ += size;
    words_.resize((size_ + 7) / 8);
    std::memcpy(reinterpret_cast<char*>(words_.data()) + at, data, size);
  }
  void resize(std::size_t size) {
    size_ = size;
    words_.resize((size + 7) / 8);
  }
  template <class T>
  void edit(const std::function<void(T&)>& change) {
    T fixed;
    std::memcpy(&fixed, words_.data(), sizeof(T));
    change(fixed);
    std::memcpy(words_.data(), &fixed, sizeof(T));
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const std::byte> span(std::size_t skip = 0) const {
    return std::as_bytes(std::span(words_)).subspan(skip, size_ - skip);
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_ = 0;
};

std::uint64_t frame_word(std::uint64_t address, std::uint64_t mapping, std::uint64_t how) {
  return address | mapping << PROFD_FRAME_MAPPING_SHIFT | how << PROFD_FRAME_HOW_SHIFT;
}

Bytes good_sample() {
  profd_sample sample{};
  const std::vector<std::uint64_t> words = {
      0xffffffff81000010,
      0xffffffff81000020,
      frame_word(0x401000, 0, PROFD_FRAME_SYSCALL),
      frame_word(0x402000, 0, PROFD_FRAME_POINTER),
      frame_word(0x7fff00000000, PROFD_NO_MAPPING, PROFD_FRAME_POINTER),
      0xabcdef};
  sample.header = {.size = static_cast<std::uint32_t>(sizeof(sample) + words.size() * 8),
                   .type = PROFD_RECORD_SAMPLE};
  sample.time_ns = 123;
  sample.period = 1'001'001;
  sample.process = {.start_ns = 77, .tgid = 42, .exec_id = 3};
  sample.owner = {.uid = 1000, .gid = 100};
  sample.tid = 43;
  sample.cpu = 1;
  sample.sessions = 5;
  sample.kernel_frames = kKernelFrames;
  sample.user_frames = kUserFrames;
  sample.mapping_count = kMappings;
  sample.user_end = PROFD_END_FP_ZERO;
  sample.context = PROFD_CONTEXT_SYSCALL;
  Bytes bytes(sample);
  bytes.append(words.data(), words.size() * 8);
  return bytes;
}

constexpr std::size_t kWindowWords = 5;

// The same sample with a deferred stack: it reached a file without a table.
Bytes deferred_sample() {
  Bytes bytes = good_sample();
  profd_deferred_stack late{};
  late.ip = 0x7fff00000000;
  late.sp = 0x7ffe00000104;
  late.window_start = 0x7ffe00000080;
  const std::vector<std::uint64_t> window = {11, 12, 13, 14, 15};
  bytes.append(&late, sizeof(late));
  bytes.append(window.data(), window.size() * 8);
  bytes.edit<profd_sample>([&](auto& sample) {
    sample.user_end = PROFD_END_DEFERRED;
    sample.deferred_words = static_cast<std::uint16_t>(sizeof(late) / 8 + window.size());
    sample.header.size = static_cast<std::uint32_t>(bytes.size());
  });
  return bytes;
}

constexpr std::uint64_t kBlockId = std::uint64_t{3} << 48 | 99;

Bytes block_of(const Bytes& sample) {
  profd_block block{};
  block.header = {.size = static_cast<std::uint32_t>(sizeof(block) + sample.size()),
                  .type = PROFD_RECORD_BLOCK};
  block.id = kBlockId;
  block.chance = 1U << 30;
  block.state = PROFD_BLOCK_DISK;
  block.unsampled = 700;
  block.unsampled_ns = 7'000'000;
  Bytes bytes(block);
  bytes.append(sample.span().data(), sample.size());
  return bytes;
}

Bytes good_block_end() {
  profd_block_end end{};
  end.header = {.size = sizeof(end), .type = PROFD_RECORD_BLOCK_END};
  end.id = kBlockId;
  end.end_ns = 456;
  return Bytes(end);
}

Bytes good_whole_block() {
  const std::vector<std::uint64_t> frames = {0xffffffff81000010, 0xffffffff81000020};
  profd_whole_block block{};
  block.header = {.size = static_cast<std::uint32_t>(sizeof(block) + frames.size() * 8),
                  .type = PROFD_RECORD_WHOLE_BLOCK};
  block.start_ns = 1000;
  block.end_ns = 9000;
  block.process = {.start_ns = 77, .tgid = 42, .exec_id = 3};
  block.owner = {.uid = 1000, .gid = 100};
  block.user_ip = 0x401000;
  block.tid = 43;
  block.sessions = 5;
  block.kernel_frames = static_cast<std::uint16_t>(frames.size());
  block.call = 202;
  block.state = PROFD_BLOCK_SLEEPING;
  block.context = PROFD_CONTEXT_SYSCALL;
  block.flags = PROFD_BLOCK_FROM_BEFORE;
  std::memcpy(block.thread, "worker", 6);
  Bytes bytes(block);
  bytes.append(frames.data(), frames.size() * 8);
  return bytes;
}

Bytes open_block(std::uint64_t id) {
  Bytes bytes = good_whole_block();
  bytes.edit<profd_whole_block>([&](auto& block) {
    block.id = id;
    block.flags = PROFD_BLOCK_OPEN | PROFD_BLOCK_WAS_CHOSEN;
  });
  return bytes;
}

Bytes good_mapping(std::string_view names = std::string_view("bin\0usr\0", 8)) {
  profd_mapping mapping{};
  mapping.header = {.size = static_cast<std::uint32_t>(sizeof(mapping) + names.size()),
                    .type = PROFD_RECORD_MAPPING};
  mapping.process = {.start_ns = 77, .tgid = 42, .exec_id = 3};
  mapping.id = 9;
  mapping.start = 0x400000;
  mapping.end = 0x500000;
  mapping.file_offset = 0x1000;
  mapping.file = {.inode = 11, .size = 12, .ctime_ns = 13, .device = 14, .generation = 15};
  mapping.kind = PROFD_MAPPING_FILE;
  mapping.name_bytes = static_cast<std::uint16_t>(names.size());
  Bytes bytes(mapping);
  bytes.append(names.data(), names.size());
  return bytes;
}

Bytes good_process(std::string_view cgroup = std::string_view("a.service\0", 10)) {
  profd_process process{};
  process.header = {.size = static_cast<std::uint32_t>(sizeof(process) + cgroup.size()),
                    .type = PROFD_RECORD_PROCESS};
  process.process = {.start_ns = 77, .tgid = 42, .exec_id = 3};
  process.executable.inode = 11;
  process.cgroup_id = 21;
  process.uid = 1000;
  process.parent_tgid = 7;
  std::memcpy(process.comm, "fifteen-letters", 15);
  process.cgroup_bytes = static_cast<std::uint16_t>(cgroup.size());
  Bytes bytes(process);
  bytes.append(cgroup.data(), cgroup.size());
  return bytes;
}

profd_interpreted_entry frame_entry(std::uint64_t id, std::uint32_t position) {
  return {.value = id, .position = position, .kind = PROFD_ENTRY_FRAME};
}

profd_interpreted_entry boundary_entry(std::uint64_t anchor, std::uint32_t native_frame) {
  return {.value = anchor, .position = native_frame, .kind = PROFD_ENTRY_BOUNDARY};
}

Bytes interpreted_stack_of(const std::vector<profd_interpreted_entry>& entries) {
  profd_interpreted_stack stack{};
  stack.header = {.size = static_cast<std::uint32_t>(sizeof(stack) + entries.size() * 16),
                  .type = PROFD_RECORD_INTERPRETED_STACK};
  stack.time_ns = 123;
  stack.process = {.start_ns = 77, .tgid = 42, .exec_id = 3};
  stack.cpu = 1;
  stack.entries = static_cast<std::uint16_t>(entries.size());
  stack.kind = PROFD_RUNTIME_PYTHON;
  stack.layout = 4;
  stack.end = PROFD_CHAIN_UNREADABLE;
  stack.of_block = 1;
  Bytes bytes(stack);
  if (!entries.empty()) bytes.append(entries.data(), entries.size() * 16);
  return bytes;
}

// Two segments: the loop of the first one is the native frame 1, that of the second was not met.
Bytes good_interpreted_stack() {
  return interpreted_stack_of({frame_entry(0x1234, 7), frame_entry(0x5678, PROFD_NO_POSITION),
                               boundary_entry(0x7ffe00000100, 1), frame_entry(0x1234, 9),
                               boundary_entry(0x7ffe00000400, PROFD_NOT_MET)});
}

// "work" and its file, of which one text is of 2 bytes a code point; there is no qualified name.
Bytes good_interpreted_code() {
  const std::string name = "work";
  const std::string file("a\0.\0p\0", 6);
  const std::string lines("\x80\x00\x81", 3);
  profd_interpreted_code code{};
  code.header = {
      .size = static_cast<std::uint32_t>(sizeof(code) + name.size() + file.size() + lines.size()),
      .type = PROFD_RECORD_INTERPRETED_CODE};
  code.time_ns = 123;
  code.process = {.start_ns = 77, .tgid = 42, .exec_id = 3};
  code.id = 0x1234;
  code.address = 0x7f0000001000;
  code.first_line = 12;
  code.units = 30;
  code.text_bytes[PROFD_CODE_NAME] = 4;
  code.text_bytes[PROFD_CODE_FILE] = 6;
  code.text_bytes[PROFD_CODE_LINES] = 3;
  code.text_kind[PROFD_CODE_NAME] = PROFD_TEXT_LATIN_1;
  code.text_kind[PROFD_CODE_FILE] = PROFD_TEXT_UCS_2;
  code.text_kind[PROFD_CODE_LINES] = PROFD_TEXT_BYTES;
  code.kind = PROFD_RUNTIME_PYTHON;
  code.layout = 4;
  code.cut = 1 << PROFD_CODE_LINES;
  Bytes bytes(code);
  bytes.append(name.data(), name.size());
  bytes.append(file.data(), file.size());
  bytes.append(lines.data(), lines.size());
  return bytes;
}

TEST(RecordTest, ASampleIsSplitIntoItsThreeLists) {
  const Bytes bytes = good_sample();
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& sample = std::get<SampleView>(*record);
  EXPECT_EQ(sample.process, (ProcessKey{.tgid = 42, .exec_id = 3, .start_ns = 77}));
  EXPECT_EQ(sample.time_ns, 123U);
  EXPECT_EQ(sample.period, 1'001'001U);
  EXPECT_EQ(sample.owner, (ProcessOwner{.uid = 1000, .gid = 100}));
  EXPECT_EQ(sample.tid, 43U);
  EXPECT_EQ(sample.sessions, 5U);
  EXPECT_EQ(sample.context, PROFD_CONTEXT_SYSCALL);
  ASSERT_EQ(sample.kernel_frames.size(), kKernelFrames);
  EXPECT_EQ(sample.kernel_frames[1], 0xffffffff81000020U);
  ASSERT_EQ(sample.user_frames.size(), kUserFrames);
  const UserFrame leaf = UserFrame::from_word(sample.user_frames[0]);
  EXPECT_EQ(leaf.address, 0x401000U);
  EXPECT_EQ(leaf.mapping, 0U);
  EXPECT_EQ(leaf.how, PROFD_FRAME_SYSCALL);
  ASSERT_EQ(sample.mapping_ids.size(), kMappings);
  EXPECT_EQ(sample.mapping_ids[0], 0xabcdefU);
  EXPECT_EQ(sample.words.size(), kKernelFrames + kUserFrames + kMappings);
}

TEST(RecordTest, ASampleOfAProcessThatOnlyRootMayReadHasNoOwner) {
  Bytes bytes = good_sample();
  bytes.edit<profd_sample>([](auto& sample) { sample.owner = {PROFD_NO_OWNER, PROFD_NO_OWNER}; });
  EXPECT_EQ(std::get<SampleView>(*parse_record(bytes.span())).owner, std::nullopt);
}

TEST(RecordTest, ADeferredStackHasItsRegistersAndItsWindow) {
  const Bytes bytes = deferred_sample();
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& deferred = std::get<DeferredSampleView>(*record);
  EXPECT_EQ(deferred.registers->sp, 0x7ffe00000104U);
  ASSERT_EQ(deferred.window.size(), kWindowWords);
  EXPECT_EQ(deferred.window[4], 15U);
  EXPECT_EQ(deferred.sample.words.size(), kKernelFrames + kUserFrames + kMappings);
  EXPECT_EQ(deferred.sample.mapping_ids[0], 0xabcdefU);
}

TEST(RecordTest, AMappingKeepsItsNamesWithTheirEnds) {
  const Bytes bytes = good_mapping();
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& mapping = std::get<MappingView>(*record);
  EXPECT_EQ(mapping.names, std::string_view("bin\0usr\0", 8));
  EXPECT_EQ(
      mapping.file,
      (FileKey{.inode = 11, .size_bytes = 12, .ctime_ns = 13, .device = 14, .generation = 15}));
  EXPECT_EQ(mapping.kind, PROFD_MAPPING_FILE);
  EXPECT_EQ(mapping.file_offset, 0x1000U);
}

TEST(RecordTest, AProcessHasItsCommWithoutNul) {
  const Bytes bytes = good_process();
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& process = std::get<ProcessView>(*record);
  EXPECT_EQ(process.comm, "fifteen-letters");
  EXPECT_EQ(process.cgroup, std::string_view("a.service\0", 10));
  EXPECT_EQ(process.uid, 1000U);
  EXPECT_EQ(process.parent_tgid, 7U);
}

TEST(RecordTest, ACommWithoutNulHasSixteenBytes) {
  Bytes bytes = good_process();
  bytes.edit<profd_process>([](auto& process) { std::memset(process.comm, 'x', 16); });
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  EXPECT_EQ(std::get<ProcessView>(*record).comm, std::string(16, 'x'));
}

TEST(RecordTest, RecordsWithoutNamesAreValid) {
  EXPECT_TRUE(parse_record(good_mapping("").span()));
  EXPECT_TRUE(parse_record(good_process("").span()));
}

TEST(RecordTest, ABlockIsASampleWithItsIdItsChanceAndItsState) {
  const Bytes bytes = block_of(good_sample());
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& sample = std::get<SampleView>(*record);
  EXPECT_EQ(sample.block.id, kBlockId);
  EXPECT_EQ(sample.block.chance, 1U << 30);
  EXPECT_EQ(sample.block.unsampled, 700U);
  EXPECT_EQ(sample.block.unsampled_ns, 7'000'000U);
  EXPECT_EQ(sample.block.state, PROFD_BLOCK_DISK);
  EXPECT_EQ(sample.block.ns, 0U);
  EXPECT_FALSE(sample.block.is_ongoing);
  EXPECT_EQ(sample.count, 1U);
  EXPECT_EQ(sample.time_ns, 123U);
  EXPECT_EQ(sample.words.size(), kKernelFrames + kUserFrames + kMappings);
  EXPECT_EQ(sample.mapping_ids[0], 0xabcdefU);
}

TEST(RecordTest, ABlockMayHaveADeferredStack) {
  const Bytes bytes = block_of(deferred_sample());
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& deferred = std::get<DeferredSampleView>(*record);
  EXPECT_EQ(deferred.sample.block.id, kBlockId);
  EXPECT_EQ(deferred.registers->sp, 0x7ffe00000104U);
  EXPECT_EQ(deferred.window.size(), kWindowWords);
}

TEST(RecordTest, ATickHasNoBlock) {
  const Bytes bytes = good_sample();
  EXPECT_EQ(std::get<SampleView>(*parse_record(bytes.span())).block.id, 0U);
}

TEST(RecordTest, TheEndOfABlockHasItsIdAndItsTime) {
  const Bytes bytes = good_block_end();
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& end = std::get<BlockEndView>(*record);
  EXPECT_EQ(end.id, kBlockId);
  EXPECT_EQ(end.end_ns, 456U);
}

TEST(RecordTest, AWholeBlockHasItsTimesAndItsKernelFrames) {
  const Bytes bytes = good_whole_block();
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& block = std::get<WholeBlockView>(*record);
  EXPECT_EQ(block.process, (ProcessKey{.tgid = 42, .exec_id = 3, .start_ns = 77}));
  EXPECT_EQ(block.id, 0U);
  EXPECT_EQ(block.start_ns, 1000U);
  EXPECT_EQ(block.end_ns, 9000U);
  EXPECT_EQ(block.owner, (ProcessOwner{.uid = 1000, .gid = 100}));
  EXPECT_EQ(block.user_ip, 0x401000U);
  EXPECT_EQ(block.tid, 43U);
  EXPECT_EQ(block.sessions, 5U);
  EXPECT_EQ(block.call, 202U);
  EXPECT_EQ(block.state, PROFD_BLOCK_SLEEPING);
  EXPECT_EQ(block.context, PROFD_CONTEXT_SYSCALL);
  EXPECT_FALSE(block.is_open);
  EXPECT_TRUE(block.is_from_before);
  EXPECT_FALSE(block.was_chosen);
  EXPECT_EQ(text_of(block.thread), "worker");
  ASSERT_EQ(block.kernel_frames.size(), 2U);
  EXPECT_EQ(block.kernel_frames[1], 0xffffffff81000020U);
}

TEST(RecordTest, TheListOfOpenBlocksIsBlocksInARow) {
  Bytes two = good_whole_block();
  const Bytes second = open_block(kBlockId);
  two.append(second.span().data(), second.size());
  const auto blocks = parse_open_blocks(two.span());
  ASSERT_TRUE(blocks);
  ASSERT_EQ(blocks->size(), 2U);
  EXPECT_FALSE(blocks->front().is_open);
  EXPECT_TRUE(blocks->back().is_open);
  EXPECT_TRUE(blocks->back().was_chosen);
  EXPECT_EQ(blocks->back().id, kBlockId);
  EXPECT_TRUE(parse_open_blocks({})->empty());
  EXPECT_FALSE(parse_open_blocks(two.span().first(two.size() - 8)));
  EXPECT_FALSE(parse_open_blocks(good_sample().span()));
}

TEST(RecordTest, ASampleHasWhatBecameOfItsInterpretedFrames) {
  Bytes bytes = good_sample();
  EXPECT_EQ(std::get<SampleView>(*parse_record(bytes.span())).interpreted, PROFD_INTERPRETED_NONE);
  bytes.edit<profd_sample>([](auto& sample) { sample.interpreted = PROFD_INTERPRETED_SENT; });
  EXPECT_EQ(std::get<SampleView>(*parse_record(bytes.span())).interpreted, PROFD_INTERPRETED_SENT);
}

TEST(RecordTest, AnInterpretedStackHasItsFramesAndBoundaries) {
  const Bytes bytes = good_interpreted_stack();
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& stack = std::get<InterpretedStackView>(*record);
  EXPECT_EQ(stack.process, (ProcessKey{.tgid = 42, .exec_id = 3, .start_ns = 77}));
  EXPECT_EQ(stack.time_ns, 123U);
  EXPECT_EQ(stack.cpu, 1U);
  EXPECT_EQ(stack.kind, PROFD_RUNTIME_PYTHON);
  EXPECT_EQ(stack.layout, 4U);
  EXPECT_EQ(stack.end, PROFD_CHAIN_UNREADABLE);
  EXPECT_TRUE(stack.of_block);
  ASSERT_EQ(stack.entries.size(), 5U);
  EXPECT_EQ(stack.entries[0].value, 0x1234U);
  EXPECT_EQ(stack.entries[0].position, 7U);
  EXPECT_EQ(stack.entries[2].kind, std::uint32_t{PROFD_ENTRY_BOUNDARY});
  EXPECT_EQ(stack.entries[2].value, 0x7ffe00000100U);
  EXPECT_EQ(stack.entries[2].position, 1U);
}

TEST(RecordTest, AnInterpretedCodeIsSplitIntoItsTexts) {
  const Bytes bytes = good_interpreted_code();
  const auto record = parse_record(bytes.span());
  ASSERT_TRUE(record);
  const auto& code = std::get<InterpretedCodeView>(*record);
  EXPECT_EQ(code.process, (ProcessKey{.tgid = 42, .exec_id = 3, .start_ns = 77}));
  EXPECT_EQ(code.id, 0x1234U);
  EXPECT_EQ(code.code.address, 0x7f0000001000U);
  EXPECT_EQ(code.code.first_line, 12U);
  EXPECT_EQ(code.code.units, 30U);
  EXPECT_EQ(code.code.layout, 4U);
  EXPECT_EQ(code.code.cut, 1U << PROFD_CODE_LINES);
  const auto& texts = code.code.texts;
  EXPECT_EQ(texts[PROFD_CODE_NAME].bytes, "work");
  EXPECT_EQ(texts[PROFD_CODE_NAME].kind, PROFD_TEXT_LATIN_1);
  EXPECT_EQ(texts[PROFD_CODE_QUALIFIER].bytes, "");
  EXPECT_EQ(texts[PROFD_CODE_QUALIFIER].kind, PROFD_TEXT_ABSENT);
  EXPECT_EQ(texts[PROFD_CODE_FILE].bytes, std::string_view("a\0.\0p\0", 6));
  EXPECT_EQ(texts[PROFD_CODE_LINES].bytes, std::string_view("\x80\x00\x81", 3));
}

TEST(RecordTest, EveryRecordCutAnywhereIsRefused) {
  for (const Bytes& whole :
       {good_sample(), deferred_sample(), good_mapping(), good_process(), block_of(good_sample()),
        block_of(deferred_sample()), good_block_end(), good_whole_block(), good_interpreted_stack(),
        good_interpreted_code()}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(parse_record(whole.span().first(size))) << size;
      // Cut, and its header says so.
      if (size < sizeof(profd_record_header)) continue;
      Bytes cut = whole;
      cut.resize(size);
      cut.edit<profd_record_header>(
          [&](auto& header) { header.size = static_cast<std::uint32_t>(size); });
      EXPECT_FALSE(parse_record(cut.span())) << size;
    }
  }
}

TEST(RecordTest, ARecordThatIsNotAlignedIsRefused) {
  Bytes padded(std::uint32_t{0});
  const Bytes whole = good_sample();
  padded.append(whole.span().data(), whole.size());
  EXPECT_FALSE(parse_record(padded.span(4)));
}

struct Change {
  const char* name;
  std::function<void(profd_sample&)> change;
};

class MalformedSampleTest : public testing::TestWithParam<Change> {};

TEST_P(MalformedSampleTest, IsRefused) {
  Bytes bytes = good_sample();
  bytes.edit<profd_sample>(GetParam().change);
  EXPECT_FALSE(parse_record(bytes.span()));
}

INSTANTIATE_TEST_SUITE_P(
    RecordTest, MalformedSampleTest,
    testing::Values(
        Change{"UnknownType", [](auto& sample) { sample.header.type = 99; }},
        Change{"SizeTooLarge", [](auto& sample) { sample.header.size += 8; }},
        Change{"SizeZero", [](auto& sample) { sample.header.size = 0; }},
        Change{"MoreKernelFramesThanWords", [](auto& sample) { ++sample.kernel_frames; }},
        Change{"FewerUserFramesThanWords", [](auto& sample) { --sample.user_frames; }},
        Change{"MoreMappingsThanWords", [](auto& sample) { ++sample.mapping_count; }},
        Change{"KernelFramesOverTheLimit",
               [](auto& sample) { sample.kernel_frames = PROFD_MAX_KERNEL_FRAMES + 1; }},
        Change{"CountsThatAddUpByWrapping",
               [](auto& sample) {
                 sample.kernel_frames = 0xffff;
                 sample.user_frames = 7;
               }},
        Change{"FrameNamesAMappingThatIsNotThere",
               [](auto& sample) {
                 sample.mapping_count = 0;
                 ++sample.kernel_frames;
               }},
        Change{"UnknownContext", [](auto& sample) { sample.context = PROFD_CONTEXT_COUNT; }},
        Change{"UnknownEnd", [](auto& sample) { sample.user_end = PROFD_END_COUNT; }},
        Change{"UnknownEventSet", [](auto& sample) { sample.event_set = PROFD_MAX_EVENT_SETS; }},
        Change{"UnknownStateOfInterpretedFrames",
               [](auto& sample) { sample.interpreted = PROFD_INTERPRETED_COUNT; }},
        Change{"NoSession", [](auto& sample) { sample.sessions = 0; }}),
    [](const auto& change) { return std::string(change.param.name); });

class MalformedDeferredSampleTest : public testing::TestWithParam<Change> {};

TEST_P(MalformedDeferredSampleTest, IsRefused) {
  Bytes bytes = deferred_sample();
  bytes.edit<profd_sample>(GetParam().change);
  EXPECT_FALSE(parse_record(bytes.span()));
}

INSTANTIATE_TEST_SUITE_P(
    RecordTest, MalformedDeferredSampleTest,
    testing::Values(Change{"OtherEnd", [](auto& sample) { sample.user_end = PROFD_END_ENTRY; }},
                    Change{"NoDeferredWords", [](auto& sample) { sample.deferred_words = 0; }},
                    Change{"OneWordLess", [](auto& sample) { --sample.deferred_words; }},
                    Change{"OneWordMore", [](auto& sample) { ++sample.deferred_words; }},
                    Change{"LessThanTheRegisters",
                           [](auto& sample) {
                             sample.deferred_words = sizeof(profd_deferred_stack) / 8 - 1;
                             sample.kernel_frames += kWindowWords + 1;
                           }},
                    Change{"NoFrameToContinueFrom",
                           [](auto& sample) {
                             sample.kernel_frames += sample.user_frames;
                             sample.user_frames = 0;
                           }},
                    Change{"AnotherLastFrame",
                           [](auto& sample) {
                             --sample.user_frames;
                             ++sample.mapping_count;
                           }}),
    [](const auto& change) { return std::string(change.param.name); });

TEST(RecordTest, AWindowThatIsTooLargeIsRefused) {
  Bytes bytes = deferred_sample();
  const std::vector<std::uint64_t> more(PROFD_DEFERRED_WINDOW_BYTES / 8 - kWindowWords + 1);
  const auto append = [&](std::size_t words) {
    bytes.append(more.data(), words * 8);
    bytes.edit<profd_sample>([&](auto& sample) {
      sample.deferred_words = static_cast<std::uint16_t>(sample.deferred_words + words);
      sample.header.size = static_cast<std::uint32_t>(bytes.size());
    });
  };
  append(more.size() - 1);
  EXPECT_TRUE(parse_record(bytes.span()));
  append(1);
  EXPECT_FALSE(parse_record(bytes.span()));
}

TEST(RecordTest, AWindowOfHalfWordsIsRefused) {
  Bytes bytes = deferred_sample();
  bytes.edit<profd_sample>([](auto&) {});
  std::vector<std::byte> copy(bytes.span().begin(), bytes.span().end());
  const std::size_t late = copy.size() - kWindowWords * 8 - sizeof(profd_deferred_stack);
  copy[late + offsetof(profd_deferred_stack, window_start)] = std::byte{0x84};
  EXPECT_FALSE(parse_record(copy));
}

struct BlockChange {
  const char* name;
  std::function<void(profd_block&)> change;
};

class MalformedBlockTest : public testing::TestWithParam<BlockChange> {};

TEST_P(MalformedBlockTest, IsRefused) {
  Bytes bytes = block_of(good_sample());
  bytes.edit<profd_block>(GetParam().change);
  EXPECT_FALSE(parse_record(bytes.span()));
}

INSTANTIATE_TEST_SUITE_P(
    RecordTest, MalformedBlockTest,
    testing::Values(BlockChange{"NoId", [](auto& block) { block.id = 0; }},
                    BlockChange{"NoState", [](auto& block) { block.state = PROFD_BLOCK_NONE; }},
                    BlockChange{"UnknownState",
                                [](auto& block) { block.state = PROFD_BLOCK_STATE_COUNT; }},
                    BlockChange{"SizeWithoutTheSample",
                                [](auto& block) { block.header.size = sizeof(profd_block); }},
                    BlockChange{"AnotherType",
                                [](auto& block) { block.header.type = PROFD_RECORD_WHOLE_BLOCK; }}),
    [](const auto& change) { return std::string(change.param.name); });

// The sample has a header of its own: neither it nor its lists may say more than there is.
TEST(RecordTest, ABlockWithAMalformedSampleIsRefused) {
  for (const Change& change :
       {Change{"Type", [](auto& sample) { sample.header.type = PROFD_RECORD_BLOCK; }},
        Change{"Size", [](auto& sample) { sample.header.size += 8; }},
        Change{"Frames", [](auto& sample) { ++sample.kernel_frames; }},
        Change{"Sessions", [](auto& sample) { sample.sessions = 0; }}}) {
    Bytes sample = good_sample();
    sample.edit<profd_sample>(change.change);
    EXPECT_FALSE(parse_record(block_of(sample).span())) << change.name;
  }
}

TEST(RecordTest, AnEndWithoutIdOrWithMoreBytesIsRefused) {
  Bytes bytes = good_block_end();
  bytes.edit<profd_block_end>([](auto& end) { end.id = 0; });
  EXPECT_FALSE(parse_record(bytes.span()));
  Bytes longer = good_block_end();
  const std::uint64_t more = 1;
  longer.append(&more, sizeof(more));
  longer.edit<profd_block_end>([](auto& end) { end.header.size += 8; });
  EXPECT_FALSE(parse_record(longer.span()));
}

struct WholeBlockChange {
  const char* name;
  std::function<void(profd_whole_block&)> change;
};

class MalformedWholeBlockTest : public testing::TestWithParam<WholeBlockChange> {};

TEST_P(MalformedWholeBlockTest, IsRefused) {
  Bytes bytes = good_whole_block();
  bytes.edit<profd_whole_block>(GetParam().change);
  EXPECT_FALSE(parse_record(bytes.span()));
}

INSTANTIATE_TEST_SUITE_P(
    RecordTest, MalformedWholeBlockTest,
    testing::Values(
        WholeBlockChange{"IdOfNoEnd", [](auto& block) { block.id = 7; }},
        WholeBlockChange{"OpenWithoutId", [](auto& block) { block.flags = PROFD_BLOCK_OPEN; }},
        WholeBlockChange{"UnknownFlag", [](auto& block) { block.flags = 8; }},
        WholeBlockChange{"EndBeforeStart", [](auto& block) { block.end_ns = 999; }},
        WholeBlockChange{"NoSession", [](auto& block) { block.sessions = 0; }},
        WholeBlockChange{"NoState", [](auto& block) { block.state = PROFD_BLOCK_NONE; }},
        WholeBlockChange{"UnknownState", [](auto& block) { block.state = 200; }},
        WholeBlockChange{"UnknownContext", [](auto& block) { block.context = 200; }},
        WholeBlockChange{"MoreFramesThanWords", [](auto& block) { ++block.kernel_frames; }},
        WholeBlockChange{"FewerFramesThanWords", [](auto& block) { --block.kernel_frames; }}),
    [](const auto& change) { return std::string(change.param.name); });

struct MappingChange {
  const char* name;
  std::function<void(profd_mapping&)> change;
};

class MalformedMappingTest : public testing::TestWithParam<MappingChange> {};

TEST_P(MalformedMappingTest, IsRefused) {
  Bytes bytes = good_mapping();
  bytes.edit<profd_mapping>(GetParam().change);
  EXPECT_FALSE(parse_record(bytes.span()));
}

INSTANTIATE_TEST_SUITE_P(
    RecordTest, MalformedMappingTest,
    testing::Values(
        MappingChange{"MoreNameBytesThanThereAre", [](auto& mapping) { ++mapping.name_bytes; }},
        MappingChange{"FewerNameBytesThanThereAre", [](auto& mapping) { --mapping.name_bytes; }},
        MappingChange{"EmptyRange", [](auto& mapping) { mapping.end = mapping.start; }},
        MappingChange{"RangeBackwards", [](auto& mapping) { mapping.end = mapping.start - 1; }},
        MappingChange{"NoId", [](auto& mapping) { mapping.id = 0; }},
        MappingChange{"UnknownKind", [](auto& mapping) { mapping.kind = PROFD_MAPPING_VDSO + 1; }}),
    [](const auto& change) { return std::string(change.param.name); });

struct InterpretedStackChange {
  const char* name;
  std::function<void(profd_interpreted_stack&)> change;
};

class MalformedInterpretedStackTest : public testing::TestWithParam<InterpretedStackChange> {};

TEST_P(MalformedInterpretedStackTest, IsRefused) {
  Bytes bytes = good_interpreted_stack();
  bytes.edit<profd_interpreted_stack>(GetParam().change);
  EXPECT_FALSE(parse_record(bytes.span()));
}

INSTANTIATE_TEST_SUITE_P(
    RecordTest, MalformedInterpretedStackTest,
    testing::Values(
        InterpretedStackChange{"MoreEntriesThanThereAre", [](auto& stack) { ++stack.entries; }},
        InterpretedStackChange{"FewerEntriesThanThereAre", [](auto& stack) { --stack.entries; }},
        InterpretedStackChange{"NoRuntime", [](auto& stack) { stack.kind = PROFD_RUNTIME_NONE; }},
        InterpretedStackChange{"UnknownRuntime",
                               [](auto& stack) { stack.kind = PROFD_RUNTIME_KIND_COUNT; }},
        InterpretedStackChange{"UnknownLayout",
                               [](auto& stack) { stack.layout = PROFD_MAX_LAYOUTS; }},
        InterpretedStackChange{"UnknownEnd",
                               [](auto& stack) { stack.end = PROFD_CHAIN_END_COUNT; }},
        InterpretedStackChange{"NeitherTickNorBlock", [](auto& stack) { stack.of_block = 2; }}),
    [](const auto& change) { return std::string(change.param.name); });

TEST(RecordTest, AnInterpretedStackWithoutEntriesOrWithTooManyIsRefused) {
  EXPECT_FALSE(parse_record(interpreted_stack_of({}).span()));
  std::vector<profd_interpreted_entry> many(PROFD_MAX_INTERPRETED_ENTRIES, frame_entry(1, 0));
  EXPECT_TRUE(parse_record(interpreted_stack_of(many).span()));
  many.push_back(frame_entry(1, 0));
  EXPECT_FALSE(parse_record(interpreted_stack_of(many).span()));
}

TEST(RecordTest, EntriesThatAreNotInOrderAreRefused) {
  struct Row {
    const char* name;
    std::vector<profd_interpreted_entry> entries;
  };
  const std::vector<Row> rows = {
      {"a frame without code", {frame_entry(0, 1)}},
      {"an unknown kind", {{.value = 1, .position = 1, .kind = PROFD_ENTRY_KIND_COUNT}}},
      {"the same native frame", {boundary_entry(0x100, 3), boundary_entry(0x200, 3)}},
      {"a native frame before", {boundary_entry(0x100, 3), boundary_entry(0x200, 2)}},
      {"the same anchor", {boundary_entry(0x100, 3), boundary_entry(0x100, 4)}},
      {"an anchor before", {boundary_entry(0x200, 3), boundary_entry(0x100, 4)}},
      {"behind all native frames", {boundary_entry(0x100, PROFD_MAX_USER_FRAMES)}},
  };
  for (const Row& row : rows) {
    EXPECT_FALSE(parse_record(interpreted_stack_of(row.entries).span())) << row.name;
  }
  const std::vector<Row> good = {
      {"a segment without frames", {boundary_entry(0x100, 0), boundary_entry(0x200, 1)}},
      {"no anchors", {boundary_entry(0, 0), boundary_entry(0, 1), boundary_entry(0, 7)}},
      {"one that was not met",
       {boundary_entry(0x100, 3), boundary_entry(0x200, PROFD_NOT_MET), boundary_entry(0x300, 4)}},
      {"the last native frame", {boundary_entry(0x100, PROFD_MAX_USER_FRAMES - 1)}},
  };
  for (const Row& row : good) {
    EXPECT_TRUE(parse_record(interpreted_stack_of(row.entries).span())) << row.name;
  }
}

struct InterpretedCodeChange {
  const char* name;
  std::function<void(profd_interpreted_code&)> change;
};

class MalformedInterpretedCodeTest : public testing::TestWithParam<InterpretedCodeChange> {};

TEST_P(MalformedInterpretedCodeTest, IsRefused) {
  Bytes bytes = good_interpreted_code();
  bytes.edit<profd_interpreted_code>(GetParam().change);
  EXPECT_FALSE(parse_record(bytes.span()));
}

INSTANTIATE_TEST_SUITE_P(
    RecordTest, MalformedInterpretedCodeTest,
    testing::Values(
        InterpretedCodeChange{"NoId", [](auto& code) { code.id = 0; }},
        InterpretedCodeChange{"NoRuntime", [](auto& code) { code.kind = PROFD_RUNTIME_NONE; }},
        InterpretedCodeChange{"UnknownRuntime",
                              [](auto& code) { code.kind = PROFD_RUNTIME_KIND_COUNT; }},
        InterpretedCodeChange{"UnknownLayout", [](auto& code) { code.layout = PROFD_MAX_LAYOUTS; }},
        InterpretedCodeChange{"CutOfNoText", [](auto& code) { code.cut = 1 << PROFD_CODE_TEXTS; }},
        InterpretedCodeChange{"ANameLongerThanTheRecord",
                              [](auto& code) { ++code.text_bytes[PROFD_CODE_NAME]; }},
        InterpretedCodeChange{"BytesOfNoText",
                              [](auto& code) { --code.text_bytes[PROFD_CODE_NAME]; }},
        InterpretedCodeChange{"HalfACodePoint",
                              [](auto& code) {
                                --code.text_bytes[PROFD_CODE_FILE];
                                ++code.text_bytes[PROFD_CODE_NAME];
                              }},
        InterpretedCodeChange{
            "HalfACodePointOfFourBytes",
            [](auto& code) { code.text_kind[PROFD_CODE_FILE] = PROFD_TEXT_UCS_4; }},
        InterpretedCodeChange{"AnUnknownKind",
                              [](auto& code) { code.text_kind[PROFD_CODE_NAME] = 3; }},
        InterpretedCodeChange{
            "BytesOfAnAbsentText",
            [](auto& code) { code.text_kind[PROFD_CODE_NAME] = PROFD_TEXT_ABSENT; }}),
    [](const auto& change) { return std::string(change.param.name); });

// Of each text: as long as it may be, and a byte more.
TEST(RecordTest, TextsOverTheirLimitAreRefused) {
  const std::vector<std::uint16_t> limits = {PROFD_MAX_CODE_NAME_BYTES, PROFD_MAX_CODE_NAME_BYTES,
                                             PROFD_MAX_CODE_FILE_BYTES, PROFD_MAX_CODE_LINES_BYTES};
  const auto parse = [](std::size_t text, std::size_t size) {
    const std::string bytes(size, 'x');
    profd_interpreted_code code{};
    code.header = {.size = static_cast<std::uint32_t>(sizeof(code) + size),
                   .type = PROFD_RECORD_INTERPRETED_CODE};
    code.id = 1;
    code.kind = PROFD_RUNTIME_PYTHON;
    code.text_bytes[text] = static_cast<std::uint16_t>(size);
    code.text_kind[text] = PROFD_TEXT_BYTES;
    Bytes record(code);
    record.append(bytes.data(), size);
    return parse_record(record.span()).has_value();
  };
  for (std::size_t i = 0; i < limits.size(); ++i) {
    EXPECT_TRUE(parse(i, limits[i])) << i;
    EXPECT_FALSE(parse(i, limits[i] + 1U)) << i;
  }
}

TEST(RecordTest, NamesWithoutAnEndAreRefused) {
  EXPECT_FALSE(parse_record(good_mapping("usr").span()));
  EXPECT_FALSE(parse_record(good_process("usr").span()));
}

TEST(RecordTest, NamesOverTheLimitAreRefused) {
  const std::string names(PROFD_MAX_NAME_BYTES + 1, '\0');
  EXPECT_FALSE(parse_record(good_mapping(names).span()));
}

TEST(RecordTest, ARefusedSampleStillHasItsSessions) {
  Bytes bytes = good_sample();
  bytes.edit<profd_sample>([](auto& sample) { ++sample.user_frames; });
  ASSERT_FALSE(parse_record(bytes.span()));
  EXPECT_EQ(sessions_of_refused(bytes.span()), 5U);
  EXPECT_EQ(sessions_of_refused(bytes.span().first(16)), 0U);
  EXPECT_EQ(sessions_of_refused(good_mapping().span()), 0U);
  EXPECT_EQ(sessions_of_refused(block_of(bytes).span()), 5U);
  EXPECT_EQ(sessions_of_refused(block_of(bytes).span().first(64)), 0U);
  EXPECT_EQ(sessions_of_refused(good_whole_block().span()), 0U);
}

}  // namespace
}  // namespace profd
