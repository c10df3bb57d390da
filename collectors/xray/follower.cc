#include "collectors/xray/follower.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectors/xray/app_link.h"
#include "collectors/xray/function_choice.h"
#include "collectors/xray/live_packets.h"
#include "collectors/xray/live_reader.h"
#include "collectors/xray/live_region.h"
#include "collectors/xray/live_result.h"
#include "collectors/xray/tick_rate.h"
#include "formats/base/seeded_hash.h"
#include "formats/xray/map.h"

namespace profd::xray {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// The app's memory holds 8 million records: four drains' worth at 100 million records a second.
constexpr milliseconds kBetweenDrains{20};
constexpr milliseconds kBetweenIdleDrains{40};
// The caller that started the session waits for the first records, but not longer than this: the
// app may be idle.
constexpr milliseconds kBetweenFirstDrains{5};
constexpr milliseconds kFirstDrains{1000};
constexpr milliseconds kBetweenEvents{200};
constexpr milliseconds kBeginLimit{5000};
constexpr milliseconds kEndLimit{2000};
// Patching a million functions takes seconds. The start of the session waits for it up to the first
// limit, the session itself up to the second.
constexpr milliseconds kStartPatchLimit{3000};
constexpr milliseconds kPatchLimit{30000};

// For the program's headers and the buffers of records and packets.
constexpr std::uint64_t kOwnBytes = std::uint64_t{4} << 20;

// A profile of fewer stacks is not useful.
constexpr std::size_t kLeastStacks = 4096;

bool send_failure(int daemon, DetachReason reason, const Error& error) {
  const EventPacket packet{
      .kind = EventKind::kFailed, .reason = reason, .error = sandbox::answer_of(error)};
  return sandbox::send_packet(daemon, sandbox::bytes_of(packet));
}

Error too_many_calls() {
  return fail(ErrorCode::kTooLarge, "the app's calls need more memory than is allowed",
              "record fewer functions: --functions");
}

Error too_many_functions() {
  return fail(ErrorCode::kTooLarge, "the program's functions need more memory than is left",
              "stop another session that records calls");
}

// The session ends without a result.
struct Failure {
  DetachReason reason{};
  Error error{};
};

class Follower {
 public:
  Follower(int daemon, UniqueFd program, UniqueFd door, const CommandPacket& start)
      : daemon_(daemon),
        program_(std::move(program)),
        link_(std::move(door), start.session),
        session_(start.session),
        memory_bytes_(start.memory_bytes) {}

  std::optional<Failure> attach(std::string_view pattern) {
    auto map = read_function_map(program_.get());
    if (!map) return Failure{DetachReason::kRefused, map.error()};
    map_ = std::move(*map);
    const std::uint64_t taken = kOwnBytes + 2 * map_.functions.size() * sizeof(Function);
    limits_ = LiveLimits::of(memory_bytes_ - std::min(memory_bytes_, taken));
    if (limits_.stacks < kLeastStacks)
      return Failure{DetachReason::kOutOfMemory, too_many_functions()};
    auto chosen = choose(pattern);
    if (!chosen) return Failure{DetachReason::kAsAsked, chosen.error()};
    auto app = link_.begin(kBeginLimit);
    if (!app) return Failure{detach_reason_of(app.error()), app.error()};
    if (app->functions != map_.functions.size()) {
      return Failure{
          DetachReason::kNonsense,
          fail(ErrorCode::kMalformed, "the app does not have the functions of its program's file")};
    }
    first_function_ = app->first_function;
    if (auto valid = check_address(measured_program()); !valid) {
      return Failure{DetachReason::kNonsense, valid.error()};
    }
    auto region = LiveRegion::open(std::move(app->memory), session_);
    if (!region) return Failure{DetachReason::kBadMemory, region.error()};
    region_.emplace(std::move(*region));
    reader_.emplace(random_seed(), limits_);
    if (auto sent = link_.patch(*chosen); !sent) {
      return Failure{detach_reason_of(sent.error()), sent.error()};
    }
    attached_ = SteadyClock::now();
    return std::nullopt;
  }

  // Runs until the daemon ends the session or is gone. The first event is sent when the functions
  // are patched or when that takes long. An app that detaches before, without a record, is a
  // failure.
  std::optional<Failure> run() {
    for (;;) {
      const std::uint64_t bytes = drain();
      if (!has_begun_ && is_detached() && reader_->records() == 0) return Failure{reason_, why_};
      watch_patching();
      send_progress();
      const auto command = wait_for_command(pause_after(bytes));
      if (!command) return std::nullopt;
      if (*command == Command::kShow && !send_result(reader_->so_far(region_->dropped()))) {
        return std::nullopt;
      }
      if (*command == Command::kFinish) return finish();
    }
  }

 private:
  // wait_for_command() received no command.
  static constexpr Command kNone{};

  [[nodiscard]] bool is_detached() const { return reason_ != DetachReason::kAsAsked; }

  [[nodiscard]] milliseconds pause_after(std::uint64_t bytes) const {
    if (bytes != 0) return kBetweenDrains;
    const bool is_first = reader_->records() == 0 && SteadyClock::now() - attached_ < kFirstDrains;
    return is_first ? kBetweenFirstDrains : kBetweenIdleDrains;
  }

  Result<std::vector<std::int32_t>> choose(std::string_view pattern) {
    if (pattern.empty()) return std::vector<std::int32_t>();
    SymbolBudget budget;
    const auto names = read_function_names(program_.get(), map_, budget);
    auto chosen = choose_functions(names, pattern);
    if (!chosen || !chosen->empty()) return chosen;
    const auto named = std::ranges::find_if_not(names, &std::string::empty);
    return fail(
        ErrorCode::kNotFound,
        "none of the " + std::to_string(map_.functions.size()) + " instrumented functions matches",
        named == names.end() ? "they have no names: the program is stripped"
                             : "one of them is " + demangled(*named));
  }

  void watch_patching() {
    const auto waited = SteadyClock::now() - attached_;
    const bool is_patching = !is_detached() && link_.patches_under_way() != 0;
    if (!has_begun_ && (!is_patching || waited > kStartPatchLimit)) begin();
    if (!is_patching || waited < kPatchLimit) return;
    detach(DetachReason::kSilent,
           fail(ErrorCode::kTimeout, "the app does not confirm that its functions are patched"));
  }

  void begin() {
    has_begun_ = true;
    send(EventKind::kProgress);
    if (is_detached()) send(EventKind::kDetached);
  }

  // Only the first reason counts, since later ones may be its consequences.
  void detach(DetachReason reason, const Error& why) {
    if (is_detached()) return;
    reason_ = reason;
    why_ = why;
    if (has_begun_) send(EventKind::kDetached);
  }

  void detach(const Error& why) { detach(detach_reason_of(why), why); }

  // Returns the number of new bytes. An app that is detached may still write records, which are
  // read unless its memory is invalid.
  std::uint64_t drain(bool is_last = false) {
    if (reason_ == DetachReason::kBadMemory || reason_ == DetachReason::kOutOfMemory) return 0;
    const auto take = [this](const LiveRecords& records) { reader_->take(records); };
    try {
      const auto bytes = is_last ? region_->finish(take) : region_->drain(take);
      if (bytes) return *bytes;
      detach(DetachReason::kBadMemory, bytes.error());
    } catch (const std::bad_alloc&) {
      detach(DetachReason::kOutOfMemory, too_many_calls());
    }
    return 0;
  }

  // None: the daemon is gone.
  std::optional<Command> wait_for_command(milliseconds limit) {
    pollfd both[] = {
        {.fd = daemon_, .events = POLLIN, .revents = 0},
        {.fd = is_detached() ? -1 : link_.descriptor(), .events = POLLIN, .revents = 0}};
    if (::poll(both, 2, static_cast<int>(limit.count())) <= 0) return kNone;
    if (both[1].revents != 0) {
      if (auto taken = link_.take_answer(); !taken) detach(taken.error());
    }
    if (both[0].revents == 0) return kNone;
    CommandPacket packet;
    const auto received = sandbox::receive_packet(daemon_, sandbox::buffer_of(packet));
    if (!received || received->bytes != sizeof packet) return std::nullopt;
    return packet.command;
  }

  // Asks the app to unpatch its functions and waits for that. Meanwhile records are read, so that
  // the app does not drop any.
  void end_recording() {
    if (is_detached()) return;
    Result<void> answer = link_.end();
    const SteadyClock::time_point end = SteadyClock::now() + kEndLimit;
    while (answer && !is_detached() && !link_.has_ended() && SteadyClock::now() < end) {
      pollfd readable{.fd = link_.descriptor(), .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, static_cast<int>(kBetweenDrains.count())) > 0) {
        answer = link_.take_answer();
      }
      drain();
    }
    if (!answer && answer.error().code != ErrorCode::kTimeout) return detach(answer.error());
    if (link_.has_ended()) return;
    detach(DetachReason::kStillPatched,
           fail(ErrorCode::kTimeout, "the app does not confirm that its functions are unpatched",
                "it may be stopped"));
  }

  // An app that violates the protocol before it writes a record leaves no result.
  std::optional<Failure> finish() {
    end_recording();
    drain(true);
    if (is_misconduct(reason_) && reader_->records() == 0) return Failure{reason_, why_};
    link_.release();
    (void)send_result(reader_->finish(region_->dropped()));
    return std::nullopt;
  }

  Result<UniqueFd> make_sealed_result(const Measured& measured, std::uint64_t max_frames) {
    auto result =
        make_result(measured, ticks_.ns_per_tick(region_->clock()), measured_program(), max_frames);
    if (!result) return result.error();
    result->functions = map_.functions.size();
    result->patched = link_.patched();
    result->report.count(Issue::kTooManyThreads, region_->refused_records());
    return sandbox::make_sealed(encode(*result));
  }

  // If the whole result needs too much memory, stacks without their outermost frames are sent.
  bool send_result(const Measured& measured) {
    for (const std::uint64_t max_frames : {std::uint64_t{limits_.frames}, std::uint64_t{0}}) {
      try {
        const auto sealed = make_sealed_result(measured, max_frames);
        if (!sealed && max_frames != 0) continue;
        if (!sealed) return send_failure(daemon_, DetachReason::kOutOfMemory, sealed.error());
        const int memory = sealed->get();
        return send(EventKind::kResult, {&memory, 1});
      } catch (const std::bad_alloc&) {
        continue;
      }
    }
    return send_failure(daemon_, DetachReason::kOutOfMemory, too_many_calls());
  }

  [[nodiscard]] MeasuredProgram measured_program() const {
    return {.file = program_.get(), .map = map_, .first = first_function_};
  }

  bool send(EventKind kind, std::span<const int> descriptors = {}) {
    last_event_ = SteadyClock::now();
    sent_records_ = reader_->records();
    const EventPacket packet{.kind = kind,
                             .functions = static_cast<std::uint32_t>(map_.functions.size()),
                             .patched = link_.patched(),
                             .reason = reason_,
                             .records = sent_records_,
                             .dropped = region_->dropped(),
                             .error = sandbox::answer_of(why_)};
    return sandbox::send_packet(daemon_, sandbox::bytes_of(packet), descriptors);
  }

  void send_progress() {
    if (!has_begun_) return;
    const bool is_new = reader_->records() != sent_records_ || link_.patched() != sent_patched_;
    // The first records are reported at once, since a caller may wait for them.
    const bool is_first = sent_records_ == 0;
    if (!is_new || (!is_first && SteadyClock::now() - last_event_ < kBetweenEvents)) return;
    sent_patched_ = link_.patched();
    send(EventKind::kProgress);
  }

  int daemon_;
  UniqueFd program_;
  AppLink link_;
  std::uint32_t session_;
  std::uint64_t memory_bytes_;
  LiveLimits limits_;
  std::optional<LiveReader> reader_;
  TickRate ticks_;
  FunctionMap map_;
  std::uint64_t first_function_ = 0;
  std::optional<LiveRegion> region_;
  SteadyClock::time_point attached_{};
  bool has_begun_ = false;
  DetachReason reason_ = DetachReason::kAsAsked;
  Error why_;  // of reason_
  SteadyClock::time_point last_event_{};
  std::uint64_t sent_records_ = 0;
  std::uint32_t sent_patched_ = 0;
};

void follow_app(int daemon) {
  CommandPacket start;
  auto received = sandbox::receive_packet(daemon, sandbox::buffer_of(start));
  if (!received || received->bytes != sizeof start || received->descriptors.size() != 2 ||
      start.pattern_bytes > kMaxPatternBytes) {
    return;
  }
  std::vector<UniqueFd>& files = received->descriptors;
  try {
    Follower follower(daemon, std::move(files[0]), std::move(files[1]), start);
    auto failure = follower.attach({start.pattern.data(), start.pattern_bytes});
    if (!failure) failure = follower.run();
    if (failure) send_failure(daemon, failure->reason, failure->error);
  } catch (const std::bad_alloc&) {
    send_failure(daemon, DetachReason::kOutOfMemory, too_many_calls());
  }
}

}  // namespace

const sandbox::ChildKind kFollowerChild{
    .name = "xray-follower", .process_name = "profd-follower", .run = &follow_app};

}  // namespace profd::xray
