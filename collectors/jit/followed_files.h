// All JIT sources that are read as they grow, each in its turn. For the follower's thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "collectors/host/uid_owners.h"
#include "collectors/jit/events.h"
#include "collectors/jit/followed_file.h"
#include "collectors/jit/stats.h"
#include "collectors/parser/parser.h"

namespace profd {

class FollowedFiles {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts bytes and refusals in `stats`, which must outlive *this.
  explicit FollowedFiles(JitStats& stats, UidOwners owners = UidOwners())
      : stats_(stats), owners_(std::move(owners)) {}

  static constexpr std::size_t kMaxFiles = 1024;
  // Of all but root. The user with the most loses a file for one who has fewer.
  static constexpr std::size_t kMaxFilesOfUsers = kMaxFiles / 2;
  static constexpr std::size_t kMaxFilesOfOwner = kMaxFiles / 8;
  // The time for files of one owner other than root, here and where their events are applied, and
  // for scans of the owner's processes; halved at each kForgetInterval.
  static constexpr std::chrono::seconds kMaxTime{3};
  static constexpr std::chrono::seconds kForgetInterval{30};

  // Follows the files of a scan; removes from the scan those that are not followed. Files whose
  // owner has time left are read at once as long as there are fewer than `max_events`.
  void follow(JitScan& scan, Parser& parser, std::size_t max_events, std::vector<JitEvent>& events);
  void release(const JitFileId& id) { files_.erase(id); }
  // Adds time that an owner's files or processes took elsewhere.
  void charge(std::uint32_t owner, Clock::duration time) {
    time_of_owner_[owners_.owner_of(owner)] += time;
  }
  // Whether the owner has no time left. Root has.
  [[nodiscard]] bool is_over_share(std::uint32_t owner, Clock::time_point now);

  // Reads the files that are due, as long as there are fewer than `max_events`.
  void read_due(Parser& parser, std::size_t max_events, std::vector<JitEvent>& events);
  [[nodiscard]] Clock::duration time_to_next(Clock::time_point now) const;

  // Makes all files due now. The answer is for were_at_end_since().
  [[nodiscard]] std::map<JitFileId, std::uint64_t> make_all_due();
  [[nodiscard]] bool were_at_end_since(const std::map<JitFileId, std::uint64_t>& before) const;

  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  using Files = std::map<JitFileId, FollowedFile>;

  bool follow(const std::shared_ptr<const JitFile>& file, Parser& parser, std::size_t max_events,
              std::vector<JitEvent>& events);
  Files::iterator read_one(Files::iterator file, Parser& parser, std::vector<JitEvent>& events);
  // The refusal of a file for which there is no room.
  std::optional<JitRefusal> make_room(const JitFile& file, std::vector<JitEvent>& events);
  void end_one_of(std::uint32_t payer, std::vector<JitEvent>& events);

  // Files that are mapped like a marker and are no jitdumps, unless their names are a runtime's.
  // They are not read again while they are the same.
  [[nodiscard]] bool is_known_as_other(const JitFile& file);
  void remember_as_other(const JitFile& file);

  struct OtherFile {
    JitFileId id;
    std::int64_t changed_ns = 0;
    std::int64_t born_ns = 0;
    friend auto operator<=>(const OtherFile&, const OtherFile&) = default;
  };

  Files files_;
  std::map<OtherFile, Clock::time_point> others_;           // until when each is remembered
  std::map<std::uint32_t, Clock::duration> time_of_owner_;  // by the user whose uid it is
  Clock::time_point forgotten_at_{};
  JitStats& stats_;
  UidOwners owners_;
};

}  // namespace profd
