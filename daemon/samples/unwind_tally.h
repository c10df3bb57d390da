// Counts how the user stacks of all samples ended since the start, and the objects in which
// incomplete stacks ended. `profctl status` shows both at any time, so they are counted as samples
// arrive.
//
// A complete stack costs one addition. When there are too many objects, or their paths take too
// much memory, the half with the fewest samples is removed. On the io thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"
#include "daemon/samples/process_table.h"
#include "formats/api/status_info.h"

namespace profd {

class UnwindTally {
 public:
  static constexpr std::size_t kMaxObjects = 512;
  static constexpr std::size_t kMaxPathBytes = std::size_t{128} << 10;

  // `processes` has the mapping of the last frame. A stack that was not taken has no end to count.
  void count(const SampleView& sample, const ProcessTable& processes) noexcept;

  [[nodiscard]] std::uint64_t user_samples() const;
  [[nodiscard]] std::uint64_t complete_samples() const;
  [[nodiscard]] CountsByReason incomplete() const;

  // The objects with most incomplete stacks, by the object of the last user frame. Their numbers
  // are lower bounds: an object may have been removed from the list before.
  [[nodiscard]] std::vector<StatusInfo::Unwinding::Object> worst(std::size_t count) const;

 private:
  struct Place {
    FileKey file;  // empty: not a file, see `kind`
    profd_mapping_kind kind = PROFD_MAPPING_FILE;
    bool known = false;  // the record of the mapping has arrived
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
  void add_object(const Place& place, std::string path);
  void drop_smaller_half();

  std::array<std::uint64_t, PROFD_END_COUNT> by_end_{};
  std::uint64_t compat_ = 0;
  boost::unordered_flat_map<Place, Breaks, PlaceHash> objects_;
  std::size_t path_bytes_ = 0;  // of objects_
};

}  // namespace profd
