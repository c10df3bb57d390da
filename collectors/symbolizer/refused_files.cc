#include "collectors/symbolizer/refused_files.h"

namespace profd {

void RefusedFiles::add(std::string_view key, DwarfLoss loss, TimePoint now) {
  if (!is_of_file(loss) || loss == DwarfLoss::kBusy) return;
  while (!by_time_.empty() &&
         (by_time_.size() >= kMaxFiles || now - by_time_.front()->second.time >= kTime)) {
    files_.erase(by_time_.front());
    by_time_.pop_front();
  }
  const auto known = files_.find(key);
  const auto file = known != files_.end() ? known : files_.emplace(key, Refused{}).first;
  if (known != files_.end()) by_time_.erase(file->second.place);
  file->second = {.loss = loss, .time = now, .place = by_time_.insert(by_time_.end(), file)};
}

std::optional<DwarfLoss> RefusedFiles::find(std::string_view key, TimePoint now) const {
  const auto file = files_.find(key);
  if (file == files_.end() || now - file->second.time >= kTime) return std::nullopt;
  return file->second.loss;
}

}  // namespace profd
