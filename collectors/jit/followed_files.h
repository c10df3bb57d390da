// All files that are read on, each in its turn. Of the following thread alone.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "collectors/files/bounded_runner.h"
#include "collectors/jit/directory_watch.h"
#include "collectors/jit/followed_file.h"
#include "collectors/jit/follower.h"
#include "collectors/parser/parser.h"

namespace profd {

class FollowedFiles {
 public:
  using Clock = std::chrono::steady_clock;

  // Of the time for files of one owner but root, here and at those who take it up; halved every
  // kForgetInterval.
  static constexpr std::chrono::seconds kMaxTime{3};
  static constexpr std::chrono::seconds kForgetInterval{30};

  // Takes up the files of a look, the first kMaxReady read once at once; what turns out to be none
  // then is taken out of the look.
  void follow(JitScan& look, Parser& parser, std::vector<JitEvent>& news);
  void let_go(const JitFileId& id) { files_.erase(id); }
  // Time that was taken for an owner's files elsewhere.
  void charge(std::uint32_t owner, Clock::duration time) { time_of_owner_[owner] += time; }

  // Reads those that are due until so much news is there.
  void read_due(Parser& parser, std::size_t max_news, std::vector<JitEvent>& news);
  [[nodiscard]] Clock::duration time_to_next(Clock::time_point now) const;

  // All are due now. What were_at_end_since() asks for.
  [[nodiscard]] std::map<JitFileId, std::uint64_t> hurry();
  [[nodiscard]] bool were_at_end_since(const std::map<JitFileId, std::uint64_t>& before) const;

  void add_to(JitStats& stats) const;

 private:
  using Files = std::map<JitFileId, FollowedFile>;

  bool take_up(const std::shared_ptr<const JitFile>& file, Parser& parser,
               std::vector<JitEvent>& news);
  Files::iterator read_one(Files::iterator file, Parser& parser, std::vector<JitEvent>& news);
  [[nodiscard]] bool is_over_share(std::uint32_t owner, Clock::time_point now);
  [[nodiscard]] std::optional<JitRefusal> refusal_of(const JitFile& file) const;
  void refuse(JitRefusal reason) { ++stats_.refused[static_cast<std::size_t>(reason)]; }

  // Files of other formats that are mapped like a runtime's: not read again while they are the
  // same. Never one with a runtime's name.
  [[nodiscard]] bool is_known_as_none(const JitFile& file);
  void remember_as_none(const JitFile& file);

  struct NoFile {
    JitFileId id;
    std::int64_t changed_ns = 0;
    std::int64_t born_ns = 0;
    friend auto operator<=>(const NoFile&, const NoFile&) = default;
  };

  Files files_;
  std::map<NoFile, Clock::time_point> no_files_;  // by when each is forgotten
  std::map<std::uint32_t, Clock::duration> time_of_owner_;
  Clock::time_point forgotten_at_{};
  JitStats stats_;
};

}  // namespace profd
