#include "daemon/xray/recorder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "collectors/xray/function_choice.h"

namespace profd {

Result<void> XrayRecorder::check(const StartRequest& request) const {
  TargetRequest pids;
  pids.pids = request.target.pids;
  if (request.target != pids || pids.pids.size() != 1 || request.from_exec) {
    return fail(ErrorCode::kInvalidArgument, "event xray records one running process",
                "name it by --pid");
  }
  if (request.frequency_hz != 0 || request.period != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "event xray records every call: it has no frequency and no period");
  }
  return xray::check_pattern(request.functions);
}

boost::asio::awaitable<void> XrayRecorder::prepare(TargetRequest target) {
  const auto pid = static_cast<pid_t>(target.pids.front());
  auto find = [this, pid] { return find_xray_target(pid, runner_, closer_); };
  auto finding = starter_.run(std::move(find));
  auto found = co_await std::move(finding);
  prepared_.insert_or_assign(pid, std::move(found));
}

// What is still prepared was refused before its start().
void XrayRecorder::every_second() {
  prepared_.clear();
  shared_.reap();
}

Result<std::shared_ptr<Recording>> XrayRecorder::start(RecordingRequest request) {
  const auto pid = static_cast<pid_t>(request.start.target.pids.front());
  auto prepared = prepared_.extract(pid);  // also where it is refused, so that no files gather
  const auto memory = xray_memory_for(held_by(request.owner.uid), request.owner.privileged);
  if (!memory) return memory.error();
  for (const auto& other : recordings()) {
    if (other->app() != pid || other->has_finished()) continue;
    return fail(ErrorCode::kBusy, "session " + other->id() + " records that process already");
  }
  if (!prepared) return fail(ErrorCode::kInternal, "the recording was not prepared");
  auto start = start_of(std::move(prepared.mapped()), pid, *memory);
  if (!start) return start.error();
  auto recording = std::make_shared<XrayRecording>(std::move(request), std::move(*start), shared_);
  recording->begin();
  std::erase_if(recordings_, [](const auto& one) { return one.expired(); });
  recordings_.push_back(recording);
  return recording;
}

Result<XrayRecording::Start> XrayRecorder::start_of(Result<XrayTarget> target, pid_t pid,
                                                    std::uint64_t memory_bytes) {
  const auto connected = shared_.apps.check_connected(pid);
  if (!target && !connected && target.error().code == ErrorCode::kIo) return connected.error();
  if (!target) return target.error();
  XrayRecording::Start start{.target = std::move(*target), .memory_bytes = memory_bytes};
  if (!connected) start.not_connected = connected.error();
  return start;
}

std::vector<std::shared_ptr<XrayRecording>> XrayRecorder::recordings() const {
  std::vector<std::shared_ptr<XrayRecording>> all;
  for (const auto& one : recordings_) {
    if (auto recording = one.lock()) all.push_back(std::move(recording));
  }
  return all;
}

// A failed recording holds nothing but its reason.
XrayHoldings XrayRecorder::held_by(uid_t uid) const {
  const uid_t user = owners_.owner_of(uid);
  XrayHoldings held;
  for (const auto& recording : recordings()) {
    if (recording->has_failed()) continue;
    ++held.sessions;
    held.bytes += recording->memory_bytes();
    if (!recording->owner().privileged) ++held.unprivileged_sessions;
    if (owners_.owner_of(recording->owner().uid) == user) {
      held.bytes_of_user += recording->memory_bytes();
    }
  }
  return held;
}

std::size_t XrayRecorder::running() const {
  const auto all = recordings();
  return static_cast<std::size_t>(
      std::ranges::count_if(all, [](const auto& one) { return !one->has_finished(); }));
}

}  // namespace profd
