#include "collectors/jit/processes.h"

#include <time.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <type_traits>
#include <utility>

#include "collectors/host/clock.h"
#include "collectors/jit/directory_watch.h"

namespace profd {
namespace {

// Of a generation's number: 10,000 records a second for three years.
constexpr unsigned kSerialBits = 40;

std::chrono::nanoseconds thread_cpu_time() {
  return std::chrono::nanoseconds(now_ns(CLOCK_THREAD_CPUTIME_ID));
}

}  // namespace

JitProcesses::JitProcesses(std::unique_ptr<JitFollower> follower)
    : follower_(std::move(follower)), registry_(std::make_unique<JitRegistry>(*follower_)) {}

JitProcesses::~JitProcesses() = default;

Result<std::unique_ptr<JitProcesses>> JitProcesses::start(const JitOptions& options) {
  std::vector<std::string> directories = {kHostTmp, "/tmp"};
  std::ranges::copy(options.directories, std::back_inserter(directories));
  auto follower = JitFollower::start(std::move(directories));
  if (!follower) return follower.error();
  return std::unique_ptr<JitProcesses>(new JitProcesses(std::move(*follower)));
}

void JitProcesses::on_process(const ProcessView& process) noexcept {
  try {
    registry_->on_process(process);
  } catch (const std::exception&) {  // no memory: root's files alone are taken for its own
  }
}

void JitProcesses::on_mapping(const MappingView& mapping) noexcept {
  try {
    registry_->on_mapping(mapping);
  } catch (const std::exception&) {  // no memory: its code stays without names
  }
}

void JitProcesses::on_unmap(const UnmapView& unmap) noexcept {
  try {
    registry_->on_unmap(unmap);
  } catch (const std::exception&) {  // no memory: code keeps a name that it had
  }
}

void JitProcesses::take_up(const JitEvent& news) {
  const std::chrono::nanoseconds began = thread_cpu_time();
  if (const auto* done = std::get_if<JitReadOn>(&news)) {
    read_ticket_ = done->ticket;
    registry_->end_dead(read_ticket_);
    return;
  }
  std::visit(
      [this](const auto& of_one_kind) {
        using Kind = std::decay_t<decltype(of_one_kind)>;
        if constexpr (!std::is_same_v<Kind, JitReadOn>) registry_->on(of_one_kind);
      },
      news);
  if (const auto* grew = std::get_if<JitFileGrew>(&news)) {
    follower_->charge(grew->file->owner, thread_cpu_time() - began);
  }
}

bool JitProcesses::poll(Clock::time_point now) {
  if (waiting_.empty()) std::ranges::move(follower_->take(), std::back_inserter(waiting_));
  for (bool is_part = false; !waiting_.empty() && !is_part; waiting_.pop_front()) {
    is_part = std::holds_alternative<JitFileGrew>(waiting_.front());
    take_up(waiting_.front());
  }
  registry_->look_who_lives(now);
  if (take_rows_) registry_->give_rows(take_rows_, now);
  registry_->watch_memory();
  return waiting_.empty();
}

void JitProcesses::send_rows_to(TakeRows take_rows) { take_rows_ = std::move(take_rows); }

void JitProcesses::send_code_memory_to(JitCodeMemory::Watch watch) {
  registry_->send_code_memory_to(std::move(watch));
}

std::optional<JitFunction> JitProcesses::at(const ProcessKey& process, std::uint64_t address,
                                            std::uint64_t time_ns) {
  const JitRegistry::Process* const known = registry_->find(process);
  if (known == nullptr) return std::nullopt;
  const auto answer = find_in_layers(known->layers, address, time_ns);
  if (!answer) return std::nullopt;
  return JitFunction{
      .generation = std::uint64_t{answer->space} << kSerialBits | answer->code.serial,
      .code = answer->code};
}

bool JitProcesses::is_final(const ProcessKey& process, std::uint64_t time_ns) const {
  const JitRegistry::Process* const known = registry_->find(process);
  if (known == nullptr) return true;
  if (known->layers.empty()) return known->is_gone;
  return std::ranges::all_of(known->layers, [time_ns](const JitLayer& layer) {
    return layer.space->index.is_final(std::min(time_ns, layer.until_ns - 1));
  });
}

bool JitProcesses::knows(const ProcessKey& process) const {
  const JitRegistry::Process* const known = registry_->find(process);
  return known != nullptr && !known->layers.empty();
}

std::optional<JitSourceFile> JitProcesses::source_file_of(const JitCode& code) const {
  const auto numbered = registry_->source(code.source);
  if (!numbered || numbered->source.file->kind != JitFileKind::kJitDump) return std::nullopt;
  return numbered->source;
}

std::optional<JitProcessInfo> JitProcesses::info(const ProcessKey& process) const {
  const JitRegistry::Process* const known = registry_->find(process);
  if (known == nullptr) return std::nullopt;
  JitProcessInfo info{.file = {}, .runtime = known->facts.runtime, .is_gone = known->is_gone};
  if (!known->sources.empty()) {
    auto shown = std::ranges::find_if(known->sources, &JitSource::is_dump);
    if (shown == known->sources.end()) shown = known->sources.begin();
    info.file = (*shown)->file().path;
    info.kind = (*shown)->file().kind;
  }
  for (const JitLayer& layer : known->layers) info.functions += layer.space->index.functions();
  return info;
}

std::uint64_t JitProcesses::read_on(const std::vector<ProcessKey>& processes) {
  std::vector<JitFollower::Wanted> wanted;
  wanted.reserve(processes.size());
  for (const ProcessKey& key : processes) {
    wanted.push_back({.process = key, .uid = registry_->uid_of(key)});
  }
  return follower_->read_on(std::move(wanted));
}

void JitProcesses::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  registry_->forget_unless(needed);
}

JitStats JitProcesses::stats() const {
  JitStats stats;
  registry_->add_to(stats);
  follower_->add_to(stats);
  return stats;
}

}  // namespace profd
