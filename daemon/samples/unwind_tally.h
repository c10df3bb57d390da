// How the user stacks of all samples ended since the start, and in which objects those that did not
// reach their root broke off: for `profctl status`, so counted as samples come in.
//
// A stack that reached its root costs one addition. Objects are counted while they are among the
// worst: when the list is full, the lesser half of it makes room. On the io thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"
#include "daemon/samples/process_table.h"
#include "formats/api/session_summary.h"

namespace profd {

class UnwindTally {
 public:
  static constexpr std::size_t kMaxObjects = 512;

  // Where stacks broke off: the object of their last user frame.
  struct Object {
    std::string path;  // or a name in brackets, for what is no file
    std::string reason;
    std::uint64_t samples = 0;  // at least
  };

  // `processes` is asked for the last frame's mapping where the stack broke off.
  void count(const SampleView& sample, const ProcessTable& processes) noexcept;

  [[nodiscard]] std::uint64_t user_samples() const;
  [[nodiscard]] std::uint64_t complete_samples() const;
  [[nodiscard]] CountsByReason incomplete() const;
  [[nodiscard]] std::vector<Object> worst(std::size_t count) const;

 private:
  struct Place {
    FileKey file;  // none: `kind` says what it is
    profd_mapping_kind kind = PROFD_MAPPING_FILE;
    bool known = false;  // a record told the mapping
    std::uint8_t user_end = 0;

    friend bool operator==(const Place&, const Place&) = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& place) const noexcept;
  };
  struct Breaks {
    std::string path;
    std::uint64_t samples = 0;
  };

  void count_object(const SampleView& sample, const ProcessTable& processes);
  void drop_lesser_half();

  std::array<std::uint64_t, PROFD_END_COUNT> by_end_{};
  std::uint64_t compat_ = 0;
  boost::unordered_flat_map<Place, Breaks, PlaceHash> objects_;
};

}  // namespace profd
