#include "collectors/symbolizer/refused_files.h"

namespace profd {

void RefusedFiles::add(std::string_view key, DwarfLoss loss, TimePoint now) {
  if (!is_of_file(loss) || loss == DwarfLoss::kBusy) return;
  while (!by_time_.empty() &&
         (by_time_.size() >= kMaxFiles || now - by_time_.front().first >= kTime)) {
    forget_oldest();
  }
  files_[std::string(key)] = {.loss = loss, .time = now};
  by_time_.emplace_back(now, key);
}

std::optional<DwarfLoss> RefusedFiles::find(std::string_view key, TimePoint now) const {
  const auto file = files_.find(std::string(key));
  if (file == files_.end() || now - file->second.time >= kTime) return std::nullopt;
  return file->second.loss;
}

// A file that was refused again since then stays.
void RefusedFiles::forget_oldest() {
  const auto [time, key] = std::move(by_time_.front());
  by_time_.pop_front();
  const auto file = files_.find(key);
  if (file != files_.end() && file->second.time == time) files_.erase(file);
}

}  // namespace profd
