// Any bytes as a record of a ring. What is accepted lies within the record, and can be read.

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "collectors/bpf/record.h"
#include "tests/fuzz/require.h"

namespace {

using namespace profd;

// A ring aligns its records to 8 bytes.
class AlignedCopy {
 public:
  AlignedCopy(const std::uint8_t* data, std::size_t size) : words_((size + 7) / 8), size_(size) {
    if (size != 0) std::memcpy(words_.data(), data, size);
  }

  // So that more than one input in 2^32 has a header that fits.
  void put_in_size() {
    const auto size = static_cast<std::uint32_t>(size_);
    if (size_ >= sizeof(profd_record_header)) {
      std::memcpy(reinterpret_cast<char*>(words_.data()) + offsetof(profd_record_header, size),
                  &size, sizeof size);
    }
  }

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words_)).first(size_);
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_;
};

void require_within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  require(part.empty() || (part.data() >= whole.data() &&
                           part.data() + part.size() <= whole.data() + whole.size()),
          "a view lies within the record");
}

void require_within(std::string_view text, std::span<const std::byte> whole) {
  require_within(std::as_bytes(std::span(text)), whole);
}

struct Check {
  std::span<const std::byte> record;

  void operator()(const SampleView& sample) const {
    require_within(std::as_bytes(sample.words), record);
    require(sample.words.size() ==
                sample.kernel_frames.size() + sample.user_frames.size() + sample.mapping_ids.size(),
            "the words are the three lists");
    for (const std::uint64_t word : sample.user_frames) {
      const UserFrame frame = UserFrame::from_word(word);
      require(frame.mapping == PROFD_NO_MAPPING || frame.mapping < sample.mapping_ids.size(),
              "a frame refers to a mapping of the list");
    }
    require(sample.sessions != 0, "a sample is of a session");
    require(text_of(sample.thread).size() <= PROFD_COMM_BYTES, "a thread's name ends");
    require(sessions_of_refused(record) == sample.sessions, "the mask is that of the sample");
  }
  void operator()(const DeferredSampleView& deferred) const {
    (*this)(deferred.sample);
    require(!deferred.sample.user_frames.empty(), "a deferred stack stops at a frame");
    require_within(std::as_bytes(std::span(deferred.registers, 1)), record);
    require_within(std::as_bytes(deferred.window), record);
  }
  void operator()(const MappingView& mapping) const {
    require_within(mapping.names, record);
    require(mapping.start < mapping.end, "a mapping has bytes");
    require(mapping.names.empty() || mapping.names.back() == '\0', "each name has an end");
  }
  void operator()(const ProcessView& process) const {
    require_within(process.comm, record);
    require_within(process.cgroup, record);
    require(process.comm.find('\0') == process.comm.npos, "a comm is a text");
    require(process.cgroup.empty() || process.cgroup.back() == '\0', "each name has an end");
  }
  void operator()(const UnmapView& unmap) const {
    require(unmap.start < unmap.end, "a range has bytes");
  }
  void operator()(const BlockEndView& end) const { require(end.id != 0, "an end is of a block"); }
  void operator()(const WholeBlockView& block) const {
    require_within(std::as_bytes(block.kernel_frames), record);
    require(block.start_ns <= block.end_ns, "a block does not end before it starts");
    require(block.sessions != 0, "a block is of a session");
    require(block.is_open == (block.id != 0), "an open block has an end to come");
    require(text_of(block.thread).size() <= PROFD_COMM_BYTES, "a thread's name ends");
  }
  void operator()(const InterpretedStackView& stack) const {
    require_within(std::as_bytes(stack.entries), record);
    require(!stack.entries.empty(), "a stack has entries");
    std::uint64_t frames_before = 0;  // the native ones that a boundary lies behind
    for (const profd_interpreted_entry& entry : stack.entries) {
      if (entry.kind == PROFD_ENTRY_FRAME) {
        require(entry.value != 0, "a frame has code");
        continue;
      }
      require(entry.kind == PROFD_ENTRY_BOUNDARY, "an entry is a frame or a boundary");
      if (entry.position == PROFD_NOT_MET) continue;
      require(entry.position >= frames_before, "the native frames of boundaries rise");
      require(entry.position < PROFD_MAX_USER_FRAMES, "a boundary lies among the frames");
      frames_before = std::uint64_t{entry.position} + 1;
    }
  }
  void operator()(const InterpretedCodeView& code) const {
    require(code.id != 0, "a code object has an id");
    for (const RawText& text : code.code.texts) {
      require_within(text.bytes, record);
      require(text.kind != PROFD_TEXT_ABSENT || text.bytes.empty(), "an absent text has no bytes");
    }
  }
};

void check(const AlignedCopy& copy) {
  if (const std::optional<Record> record = parse_record(copy.bytes())) {
    std::visit(Check{copy.bytes()}, *record);
  } else {
    static_cast<void>(sessions_of_refused(copy.bytes()));
  }
  if (const auto blocks = parse_open_blocks(copy.bytes())) {
    for (const WholeBlockView& block : *blocks) Check{copy.bytes()}(block);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  AlignedCopy copy(data, size);
  check(copy);
  copy.put_in_size();
  check(copy);
  return 0;
}
