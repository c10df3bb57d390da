// The names of the threads in one session, by index.
//
// The number at the end of a name is "#": the threads of a pool count as one, and a process can't
// make a stack of its own for each of its threads by numbering them. The number of names is
// limited, and of a session of all users' processes, unprivileged users have a part. A value, like
// the samples that refer to it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "formats/profile/interned.h"

namespace profd {

class ThreadNames {
 public:
  static constexpr std::size_t kMaxNames = 4096;
  // Of all users but root, and of one of them.
  static constexpr std::size_t kMaxNamesOfUsers = kMaxNames / 2;
  static constexpr std::size_t kMaxNamesOfUser = kMaxNames / 8;

  // Charged for a name.
  static constexpr std::uint64_t kNameBytes = 128;

  // What a thread over the limit is named.
  static constexpr std::uint32_t kOther = 0;

  ThreadNames();

  // `comm` is the name of the thread's process. A thread of that name keeps its number. `payer` is
  // the user whose part a new name takes, or root (0). None: it is over a limit.
  std::optional<std::uint32_t> add(std::string_view thread, std::string_view comm,
                                   std::uint32_t payer);

  [[nodiscard]] std::string_view name(std::uint32_t index) const { return names_[index]; }
  [[nodiscard]] std::uint32_t size() const { return names_.size(); }

 private:
  [[nodiscard]] bool has_room(std::uint32_t payer) const;

  InternedTexts names_;
  std::size_t names_of_users_ = 0;
  boost::unordered_flat_map<std::uint32_t, std::size_t> names_of_user_;  // by payer, not of root
};

// "worker-12" becomes "worker-#".
[[nodiscard]] std::string folded_thread_name(std::string_view thread);

}  // namespace profd
