// JIT sources, the code maps that they fill, and the limits of the memory for their code. For the
// io thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "collectors/host/uid_owners.h"
#include "collectors/jit/answers.h"
#include "collectors/jit/code_map.h"
#include "collectors/jit/events.h"
#include "collectors/jit/follower.h"
#include "collectors/jit/stats.h"
#include "collectors/jit/tsc_clock.h"
#include "formats/jit/jitdump_reader.h"

namespace profd {

class JitSource {
 public:
  static constexpr std::size_t kMaxCodeMaps = 64;
  // LLVM's ORC writes the lines of a whole object before its code.
  static constexpr std::size_t kMaxWaitingLines = 4096;

  // `maps` must outlive *this.
  JitSource(std::shared_ptr<const JitFile> file, std::uint16_t number, JitCodeMaps& maps);

  // The code map for records of this pid. Null where there are kMaxCodeMaps of other pids already;
  // the file's writer always has one. A perf map has the code of one pid: null for a second one,
  // which only a bind mount can cause.
  std::shared_ptr<JitCodeMap> code_map_of(std::uint32_t pid);
  // The pid of the process that made the file, if its header is read. A perf map has none.
  [[nodiscard]] std::optional<std::uint32_t> writer() const;

  // All processes with this jitdump share one code map. No effect once there are code maps of
  // single processes.
  void share();

  // How many events of a part, and functions with unwind rows, are applied in one turn of the io
  // thread. Each takes some 20 us at most, where hostile code fills the code map.
  static constexpr std::size_t kMaxStepsOfTurn = 512;

  // How much of a part is applied.
  struct Progress {
    std::size_t event = 0;     // the next event or line
    std::size_t function = 0;  // of that event's unwind rows, the next function
    std::size_t room = 0;      // bytes of memory that are left for the source
  };

  // Applies kMaxStepsOfTurn of a part of the file at most, from `progress` on, and no more where
  // the room is used up. Counts the records that could not be applied. `tsc` converts time stamps
  // of a file that has counts of the processor; without it, such records get the time of their
  // reading. True: the part is applied.
  bool apply(const JitFileGrew& part, Progress& progress, const std::optional<TscConversion>& tsc,
             JitStats& stats);

  // Applies no further part. The code that is known stays.
  void end() {
    is_ended_ = true;
    waiting_lines_.clear();
  }
  [[nodiscard]] bool has_ended() const { return is_ended_; }

  // The memory besides the code maps.
  [[nodiscard]] std::size_t memory_bytes() const;
  // Records of pids that no known process with the file has.
  [[nodiscard]] std::uint64_t foreign_records() const;

  [[nodiscard]] const std::shared_ptr<JitSourceFile>& file() const { return file_; }
  [[nodiscard]] bool is_dump() const { return file_->is_dump(); }

 private:
  struct Turn;
  bool apply_dump(const JitFileGrew& part, Turn& turn, const std::optional<TscConversion>& tsc,
                  JitStats& stats);
  void apply_event(const JitFileGrew& part, Turn& turn, std::uint64_t time_ns);
  bool apply_map(const JitFileGrew& part, Turn& turn);
  std::shared_ptr<JitCodeMap> apply_code(const JitDumpEvent& event, std::uint64_t time_ns);
  bool add_waiting_lines(const JitDumpEvent& event);
  [[nodiscard]] JitFileRange take_waiting_lines(std::uint64_t address);

  std::shared_ptr<JitSourceFile> file_;
  JitCodeMaps& maps_;
  // By the pid in records, or one for all.
  std::map<std::uint32_t, std::shared_ptr<JitCodeMap>> code_maps_;
  // Lines (DEBUG_INFO) whose code has not come yet, by its address. They have no pid: the first
  // code at the address gets them.
  std::map<std::uint64_t, JitFileRange> waiting_lines_;
  bool is_shared_ = false;
  bool is_ended_ = false;
};

// All JIT sources, by file.
class JitSources {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
  // Of all but root. The user with the most loses all code for a user who has less.
  static constexpr std::size_t kMaxBytesOfUsers = kMaxBytes / 2;
  static constexpr std::size_t kMaxBytesOfUser = kMaxBytes / 8;

  // Counts refusals, events and malformed records in `stats`. All must outlive *this.
  JitSources(JitFollower& follower, JitStats& stats, UidOwners& owners)
      : follower_(follower), stats_(stats), owners_(owners) {}

  // The source of a file. Null where there are too many.
  std::shared_ptr<JitSource> find_or_add(const std::shared_ptr<const JitFile>& file);

  // Applies JitSource::kMaxStepsOfTurn of a part of a file at most. While has_more(), call again
  // with the same part. Returns the file's source if that has its header by this call.
  std::shared_ptr<JitSource> apply(const JitFileGrew& part);
  // Whether the part of the last apply() is not wholly applied.
  [[nodiscard]] bool has_more() const { return progress_.has_value(); }

  // Ends a source whose file is not read any further; its code stays known. The same file, if found
  // again, is another source. Null where it is not known.
  std::shared_ptr<JitSource> end(const JitFileId& file);

  // Releases the sources that no process uses.
  void release_unless(const std::set<const JitSource*>& in_use);

  // Destroys some of the unwind rows that are not needed any more. False: there are more.
  bool destroy_some() { return maps_.destroy_some(); }

  // The file with that number (JitCode::source). Null once none of its code is known.
  [[nodiscard]] std::shared_ptr<const JitSourceFile> file(std::uint16_t number) const;

  // Adds what is counted of the sources now.
  void add_to(JitStats& stats) const;

 private:
  // Of all memory.
  [[nodiscard]] std::map<std::uint32_t, std::size_t> bytes_by_owner() const;
  void count_malformed(const JitFileGrew& part);
  // What an owner's code may take further. 0 bytes: it is refused for this reason.
  struct Room {
    std::size_t bytes = 0;
    JitRefusal refusal = JitRefusal::kOverMemory;
  };
  Room make_room(std::uint32_t owner);
  void forget_code_of(std::uint32_t payer);
  void stop_reading(JitSource& source, JitRefusal reason);

  JitFollower& follower_;
  JitStats& stats_;
  UidOwners& owners_;
  TscClock tsc_;
  JitCodeMaps maps_;
  std::map<JitFileId, std::shared_ptr<JitSource>> sources_;
  std::optional<JitSource::Progress> progress_;  // of the part that is being applied
  std::map<std::uint16_t, std::weak_ptr<const JitSourceFile>> files_;  // by number
  std::uint16_t last_number_ = 0;
};

}  // namespace profd
