// The names of the threads in one session, by index.
//
// The number at the end of a name is "#": the threads of a pool count as one, and a process can't
// make a stack of its own for each of its threads by numbering them. The number of names is
// limited. A value, like the samples that refer to it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/profile/interned.h"

namespace profd {

class ThreadNames {
 public:
  static constexpr std::size_t kMaxNames = 4096;

  // Charged for a name.
  static constexpr std::uint64_t kNameBytes = 128;

  // What a thread over the limit is named.
  static constexpr std::uint32_t kOther = 0;

  ThreadNames();

  // `comm` is the name of the thread's process. A thread of that name keeps its number.
  std::uint32_t add(std::string_view thread, std::string_view comm);

  [[nodiscard]] std::string_view name(std::uint32_t index) const { return names_[index]; }
  [[nodiscard]] std::uint32_t size() const { return names_.size(); }

 private:
  InternedTexts names_;
};

// "worker-12" becomes "worker-#".
[[nodiscard]] std::string folded_thread_name(std::string_view thread);

}  // namespace profd
