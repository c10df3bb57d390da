// Records the calls of instrumented apps: event "xray". On the io thread.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "collectors/files/bounded_runner.h"
#include "collectors/files/file_closer.h"
#include "collectors/host/uid_owners.h"
#include "daemon/sessions/recording.h"
#include "daemon/storage/worker.h"
#include "daemon/xray/apps.h"
#include "daemon/xray/memory.h"
#include "daemon/xray/recording.h"
#include "daemon/xray/target.h"

namespace profd {

inline constexpr std::string_view kXrayEvent = "xray";

class XrayRecorder final : public Recorder {
 public:
  // All must outlive the recorder; the recorder its recordings. `owners` say which uids are one
  // user.
  XrayRecorder(boost::asio::io_context& io, XrayApps& apps, UidOwners& owners)
      : shared_{.io = io, .apps = apps, .starter = starter_}, owners_(owners) {}

  [[nodiscard]] bool records(std::string_view event) const override { return event == kXrayEvent; }
  [[nodiscard]] Result<void> check(const StartRequest& request) const override;
  [[nodiscard]] boost::asio::awaitable<void> prepare(TargetRequest target) override;
  [[nodiscard]] Result<std::shared_ptr<Recording>> start(RecordingRequest request) override;
  void every_second() override;

  // Closes the programs, and traces for XrayDirectory.
  [[nodiscard]] FileCloser& closer() { return closer_; }

  [[nodiscard]] std::size_t running() const;
  [[nodiscard]] std::uint64_t failed() const { return shared_.failed; }
  [[nodiscard]] const CountsByReason& ended() const { return shared_.ended; }

 private:
  [[nodiscard]] std::vector<std::shared_ptr<XrayRecording>> recordings() const;
  [[nodiscard]] XrayHoldings held_by(uid_t uid) const;
  [[nodiscard]] Result<XrayRecording::Start> start_of(Result<XrayTarget> target, pid_t pid,
                                                      std::uint64_t memory_bytes);

  XrayRecording::Shared shared_;
  UidOwners& owners_;
  FileCloser closer_;
  std::map<pid_t, Result<XrayTarget>> prepared_;  // for the start() that follows at once
  std::vector<std::weak_ptr<XrayRecording>> recordings_;
  BoundedRunner runner_;            // for the jobs of starter_
  Worker starter_{"xray-starter"};  // last: it ends its jobs before what they use is destroyed
};

}  // namespace profd
