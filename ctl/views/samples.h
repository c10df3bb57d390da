// Labelled, symbolized stacks: the one model behind all views (report, tree, diff).
//
// A source (ctl/sources) fills it. Texts, functions, frames and label sets are there once, and
// refer to each other by index. A stack is kept as varints, as it lies in a profile.proto: 42
// frames take 80 bytes, so that a million stacks fit into memory. Its numbers are those of
// locations; a location is an address with the functions that are inlined there, each of which is a
// frame of its own.
//
// Owns all its memory; no thread affinity. Every index lies inside its table, and no value is
// negative. Texts are any bytes: they are made printable where they are shown.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/views/time_kind.h"
#include "formats/api/session_summary.h"
#include "formats/base/seeded_hash.h"
#include "formats/profile/interned.h"
#include "formats/profile/sample_times.h"
#include "formats/profile/text_blocks.h"

namespace profd {

// kRuntime: code that a runtime has compiled. kInterpreted: a function that an interpreter runs.
enum class FrameKind : std::uint8_t { kNative, kKernel, kRuntime, kInterpreted };
inline constexpr std::size_t kFrameKinds = 4;
// "native", "kernel", "runtime", "interpreted"
[[nodiscard]] std::string_view name_of(FrameKind kind);

struct SampledFunction {
  std::uint32_t name = 0;
  std::uint32_t file = 0;    // of the source; the empty text: unknown
  std::uint32_t object = 0;  // the file with the code; the empty text: unknown
  FrameKind kind = FrameKind::kNative;

  friend bool operator==(const SampledFunction&, const SampledFunction&) = default;
  friend void add_to(SeededHash& hash, const SampledFunction& function);
};

struct SampledFrame {
  std::uint32_t function = 0;
  std::uint32_t line = 0;  // 0: unknown

  friend bool operator==(const SampledFrame&, const SampledFrame&) = default;
  friend void add_to(SeededHash& hash, const SampledFrame& frame);
};

// The empty text: unknown, or none.
struct SampleLabels {
  std::uint32_t pid = 0;  // 0: unknown, or several processes
  std::uint32_t tid = 0;
  std::uint32_t comm = 0;
  std::uint32_t unit = 0;
  std::uint32_t container = 0;
  std::uint32_t user = 0;
  std::uint32_t runtime = 0;
  std::uint32_t thread = 0;
  std::uint32_t state = 0;    // of a block
  std::uint32_t wait = 0;     // of a block: what for
  std::uint32_t ongoing = 0;  // "yes": the block had not ended

  friend bool operator==(const SampleLabels&, const SampleLabels&) = default;
  friend void add_to(SeededHash& hash, const SampleLabels& labels);
};

struct SampleValue {
  std::int64_t samples = 0;
  std::int64_t cpu_ns = 0;      // of another kind where Samples::time_kind says so
  std::int64_t longest_ns = 0;  // of the blocks, the longest one; 0: unknown

  // Sums stop at the limits of the type.
  void add(const SampleValue& other);
  friend bool operator==(const SampleValue&, const SampleValue&) = default;
};

// What the recording of the samples says about those that it does not have, and about stacks that
// end too early. Reasons are any bytes.
struct CountOfReason {
  std::string reason{};
  std::uint64_t count = 0;
};
struct SampleLosses {
  // Samples of the recording; where these are blocks, their microseconds, as in session.json.
  std::uint64_t written = 0;
  std::vector<CountOfReason> lost{};
  std::uint64_t user_samples = 0;           // with a user stack
  std::vector<CountOfReason> incomplete{};  // of these

  // Those of another recording.
  void add(const SampleLosses& other);
};

// The counts of a reason that the list has several times are added up.
[[nodiscard]] CountsByReason by_reason(const std::vector<CountOfReason>& counts);
[[nodiscard]] std::vector<CountOfReason> list_by_reason(const CountsByReason& counts);

// Takes the first number off a stack in the form of Samples::Row, which is not empty. Returns the
// location.
[[nodiscard]] inline std::uint32_t take_location(std::string_view& stack) {
  constexpr unsigned kBits = 7;
  constexpr unsigned char kMore = 0x80;
  std::uint64_t number = 0;
  std::size_t bytes = 0;
  for (unsigned shift = 0; bytes < stack.size(); shift += kBits) {
    const auto byte = static_cast<unsigned char>(stack[bytes++]);
    number |= std::uint64_t{byte & (kMore - 1U)} << shift;
    if (byte < kMore) break;
  }
  stack.remove_prefix(bytes);
  return static_cast<std::uint32_t>(number - 1);
}

// Of `samples` of the value's samples. Each has the same time, as it is not known which they are.
[[nodiscard]] SampleValue part_of(const SampleValue& value, std::int64_t samples);

class Samples {
 public:
  struct Row {
    const char* stack = nullptr;  // varints: numbers of locations plus 1, the leaf first
    std::uint32_t stack_bytes = 0;
    std::uint32_t labels = 0;
    SampleValue value;

    [[nodiscard]] std::string_view encoded() const { return {stack, stack_bytes}; }
  };

  Samples();
  Samples(Samples&&) = default;
  Samples& operator=(Samples&&) = default;

  std::string event = "cpu";  // what was sampled
  bool has_cpu_time = false;  // cpu_ns is known
  TimeKind time_kind = TimeKind::kCpu;
  // False: of blocks that have times alone, as in a directory. `samples` then says nothing.
  bool has_counts = true;
  std::int64_t duration_ns = 0;  // 0: unknown
  std::int64_t time_ns = 0;      // of the start, since the epoch; 0: unknown
  SampleValue idle;              // of the rows that fold_idle() has removed (idle.h)
  // Of the whole recording, whatever rows were kept. None: it does not say.
  std::optional<SampleLosses> losses;

  std::uint32_t add_text(std::string_view text) { return texts_.add(text); }
  std::uint32_t add_function(const SampledFunction& function) { return functions_.add(function); }
  std::uint32_t add_labels(const SampleLabels& labels) { return labels_.add(labels); }
  // `frames`: the innermost inlined function first. Returns the number of the location; each call
  // adds one.
  std::uint32_t add_location(std::span<const SampledFrame> frames);
  // `stack`: numbers of locations, the leaf first.
  void add(std::span<const std::uint32_t> stack, std::uint32_t labels, const SampleValue& value);
  // `stack` has the form of Row::stack. It is copied unless it lies in the bytes of keep().
  void add_encoded(std::string_view stack, std::uint32_t labels, const SampleValue& value);
  // Keeps bytes that stacks lie in. Returns where they are from then on. At most once.
  std::string_view keep(std::string bytes);
  // The times of rows. False: a row is not there, or was not taken so often; then there are none.
  bool set_times(SampleTimes times);
  void forget_times() { times_.reset(); }
  // None: the samples have no times.
  [[nodiscard]] const std::optional<SampleTimes>& times() const { return times_; }
  // Keeps what was taken from `since` to `until`, these are ticks, and leaves out all without time.
  void keep_ticks(std::uint32_t since, std::uint32_t until);
  // Removes the rows of the other label sets.
  void keep_labels(const std::vector<bool>& is_kept);
  // Removes the rows that are not kept, with their times.
  void keep_rows(const std::vector<bool>& is_kept);
  void reserve(std::size_t rows) { rows_.reserve(rows_.size() + rows); }

  [[nodiscard]] std::uint32_t text_count() const { return texts_.size(); }
  [[nodiscard]] std::string_view text(std::uint32_t index) const { return texts_[index]; }
  [[nodiscard]] std::span<const SampledFunction> functions() const { return functions_.all(); }
  [[nodiscard]] std::span<const SampledFrame> frames() const { return frames_.all(); }
  [[nodiscard]] std::span<const SampleLabels> labels() const { return labels_.all(); }
  [[nodiscard]] std::span<const Row> rows() const { return rows_; }
  [[nodiscard]] std::size_t location_count() const { return location_ends_.size(); }
  // Numbers of frames, the innermost first.
  [[nodiscard]] std::span<const std::uint32_t> frames_of_location(std::uint32_t location) const {
    const std::size_t first = location == 0 ? 0 : location_ends_[location - 1];
    return std::span(location_frames_).subspan(first, location_ends_[location] - first);
  }
  // The numbers of the locations of a stack, the leaf first. Replaces what `locations` has.
  void read_locations(const Row& row, std::vector<std::uint32_t>& locations) const;
  // The numbers of the frames of a stack, the leaf first. Replaces what `frames` has.
  void read_stack(const Row& row, std::vector<std::uint32_t>& frames) const;

  [[nodiscard]] SampleValue sum() const;

 private:
  InternedTexts texts_;
  InternedValues<SampledFunction> functions_;
  InternedValues<SampledFrame> frames_;
  InternedValues<SampleLabels> labels_;
  std::vector<std::uint32_t> location_frames_;
  std::vector<std::size_t> location_ends_;  // in location_frames_
  std::unique_ptr<std::string> kept_;
  TextBlocks stacks_;
  std::vector<Row> rows_;
  std::optional<SampleTimes> times_;  // by index in rows_
};

}  // namespace profd
