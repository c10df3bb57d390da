// The samples of the source that profctl web shows, by time and target: the last few are kept,
// since a page asks for several views of the same ones.

#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include "ctl/client/client.h"
#include "ctl/sources/source.h"
#include "formats/api/history_api.h"
#include "formats/base/result.h"

namespace profd {

class ShownSamples {
 public:
  // `source` is what the command line names; its range and target hold for a request without any.
  ShownSamples(Client& client, SourceRequest source);

  [[nodiscard]] const SourceRequest& source() const { return source_; }
  // The source is the history. Samples of a session may have times, too.
  [[nodiscard]] bool is_history() const { return source_.name.empty(); }

  // Where samples have no times, `range` is not looked at. Without `has_idle`, samples of idle
  // threads are left out (idle.h). kNotFound: there are no samples.
  [[nodiscard]] Result<std::shared_ptr<const Source>> get(const TimeRange& range,
                                                          const TargetRequest& target,
                                                          bool has_idle = false);

 private:
  struct Kept {
    TimeRange range;
    TargetRequest target;
    bool has_idle = false;
    std::chrono::steady_clock::time_point read;
    std::shared_ptr<const Source> source;
  };

  [[nodiscard]] Result<Source> open(const TimeRange& range, const TargetRequest& target,
                                    bool has_idle);
  [[nodiscard]] bool is_current(const Kept& kept) const;

  Client& client_;
  SourceRequest source_;
  std::deque<Kept> kept_;  // the one that was used last comes first
};

}  // namespace profd
