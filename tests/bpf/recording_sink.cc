#include "tests/bpf/recording_sink.h"

#include <algorithm>
#include <thread>

namespace profd::test {

StoredSample::StoredSample(const SampleView& sample)
    : view(sample), words(sample.words.begin(), sample.words.end()) {
  const std::span<const std::uint64_t> all = words;
  view.words = all;
  view.kernel_frames = all.first(sample.kernel_frames.size());
  view.user_frames = all.subspan(sample.kernel_frames.size(), sample.user_frames.size());
  view.mapping_ids = all.last(sample.mapping_ids.size());
}

StoredSample::StoredSample(const DeferredSampleView& sample) : StoredSample(sample.sample) {
  deferred = *sample.registers;
  deferred_window.assign(sample.window.begin(), sample.window.end());
}

void RecordingSink::on_sample(const SampleView& sample) noexcept {
  if (pause.count() != 0) std::this_thread::sleep_for(pause);
  check_announced(sample);
  samples.emplace_back(sample);
}

void RecordingSink::on_deferred_sample(const DeferredSampleView& deferred) noexcept {
  check_announced(deferred.sample);
  samples.emplace_back(deferred);
}

void RecordingSink::check_announced(const SampleView& sample) {
  const bool announced =
      announced_.contains(sample.process) &&
      std::ranges::all_of(sample.mapping_ids, [&](std::uint64_t id) {
        const auto mapping = mappings.find(id);
        return mapping != mappings.end() && mapping->second.process == sample.process;
      });
  if (!announced) ++unannounced_;
}

void RecordingSink::on_mapping(const MappingView& mapping,
                               std::shared_ptr<const MappedFile> file) noexcept {
  mappings.insert_or_assign(mapping.id, StoredMapping{.process = mapping.process,
                                                      .id = mapping.id,
                                                      .start = mapping.start,
                                                      .end = mapping.end,
                                                      .file_offset = mapping.file_offset,
                                                      .file = mapping.file,
                                                      .kind = mapping.kind,
                                                      .names = std::string(mapping.names),
                                                      .mapped = std::move(file)});
}

void RecordingSink::on_process(const ProcessView& process) noexcept {
  announced_.insert(process.process);
  processes.push_back({.process = process.process,
                       .executable = process.executable,
                       .uid = process.uid,
                       .parent_tgid = process.parent_tgid,
                       .kernel_thread = process.kernel_thread,
                       .comm = std::string(process.comm),
                       .cgroup = std::string(process.cgroup)});
}

void RecordingSink::forget() {
  mappings.clear();
  announced_.clear();
}

void RecordingSink::on_interpreted(const InterpretedStackView& stack) noexcept {
  interpreted.push_back({.process = stack.process,
                         .time_ns = stack.time_ns,
                         .cpu = stack.cpu,
                         .end = stack.end,
                         .of_block = stack.of_block,
                         .entries = {stack.entries.begin(), stack.entries.end()}});
}

void RecordingSink::on_code(const InterpretedCodeView& code) noexcept {
  const auto text = [&](std::size_t which) { return std::string(code.code.texts.at(which).bytes); };
  codes[code.id] = {.name = text(PROFD_CODE_NAME),
                    .qualifier = text(PROFD_CODE_QUALIFIER),
                    .file = text(PROFD_CODE_FILE),
                    .lines = text(PROFD_CODE_LINES),
                    .first_line = code.code.first_line,
                    .units = code.code.units};
}

std::vector<const StoredSample*> RecordingSink::of_process(std::uint32_t tgid) const {
  std::vector<const StoredSample*> found;
  for (const StoredSample& sample : samples) {
    if (sample.view.process.tgid == tgid) found.push_back(&sample);
  }
  return found;
}

}  // namespace profd::test
