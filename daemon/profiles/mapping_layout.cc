#include "daemon/profiles/mapping_layout.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

#include "daemon/profiles/file_hits.h"
namespace profd {
namespace {

// A gap between moved mappings, so that no reader joins them.
constexpr std::uint64_t kGapBytes = 4096;

struct UsedMapping {
  std::uint64_t id;
  const ProcessMapping* mapping;

  // The address of the object's first byte. Anonymous memory has no offsets: all of it counts as
  // one object.
  [[nodiscard]] std::uint64_t origin() const {
    if (mapping->kind == PROFD_MAPPING_ANONYMOUS) return 0;
    return mapping->start - mapping->file_offset;
  }
  [[nodiscard]] auto order() const {
    return std::tuple(mapping->kind, mapping->file_key, origin(), mapping->start, id);
  }
  [[nodiscard]] bool same_object_as(const UsedMapping& other) const {
    return mapping->kind == other.mapping->kind && mapping->file_key == other.mapping->file_key &&
           origin() == other.origin();
  }
};

std::vector<UsedMapping> used_mappings(const ProcessSnapshot& process) {
  std::set<std::uint64_t> ids;
  const StackTable& table = process.samples.stacks;
  for (const StackTable::Stack& stack : table.stacks()) {
    const auto of_stack = table.mapping_ids(stack);
    ids.insert(of_stack.begin(), of_stack.end());
  }
  std::vector<UsedMapping> used;
  for (const std::uint64_t id : ids) {
    const auto known = process.image->mappings.find(id);
    if (known != process.image->mappings.end()) used.push_back({id, &known->second});
  }
  std::ranges::sort(used, {}, &UsedMapping::order);
  return used;
}

ObjectPart part_of(const ProcessMapping& mapping, const ProcessSnapshot& process,
                   ObjectImages& objects) {
  const FileKey& executable = process.image->executable;
  const bool main = !executable.empty() && mapping.file_key == executable;
  const bool anonymous = mapping.kind == PROFD_MAPPING_ANONYMOUS;
  return {.start = mapping.start,
          .end = mapping.end,
          .file_offset = anonymous ? 0 : mapping.file_offset,
          .newest_ns = mapping.time_ns,
          .main_executable = main,
          .may_be_jit = may_be_jit_code(mapping),
          .file = mapping.file,
          .object = &objects.find_or_add(mapping, main, uid_of(process))};
}

ProfileMapping line_of(const ObjectPart& part) {
  return {.start = part.start + part.shift,
          .end = part.end + part.shift,
          .file_offset = part.file_offset,
          .path = part.object->line_path()};
}

bool overlaps_any(const std::map<std::uint64_t, std::uint64_t>& end_by_start,
                  const ObjectPart& part) {
  const auto after = end_by_start.lower_bound(part.end);
  return after != end_by_start.begin() && std::prev(after)->second > part.start;
}

}  // namespace

MappingLayout::MappingLayout(const ProcessSnapshot& process, ObjectImages& objects) {
  join(process, objects);
  move_older_from_newer();
}

const ObjectPart* MappingLayout::find(std::uint64_t mapping_id) const {
  const auto found = by_id_.find(mapping_id);
  return found == by_id_.end() ? nullptr : &parts_[found->second];
}

std::vector<ProfileMapping> MappingLayout::lines() const {
  std::vector<ObjectPart> ordered = parts_;
  std::ranges::sort(ordered, {}, [](const ObjectPart& part) {
    return std::tuple(!part.main_executable, part.start + part.shift);
  });
  std::vector<ProfileMapping> lines;
  std::ranges::transform(ordered, std::back_inserter(lines), line_of);
  return lines;
}

std::vector<ProfileMapping> MappingLayout::lines_of_files() const {
  std::vector<ProfileMapping> lines;
  for (const ObjectPart& part : parts_) {
    if (!part.may_be_jit) lines.push_back(line_of(part));
  }
  return lines;
}

void MappingLayout::join(const ProcessSnapshot& process, ObjectImages& objects) {
  const UsedMapping* previous = nullptr;
  const std::vector<UsedMapping> used = used_mappings(process);
  for (const UsedMapping& next : used) {
    const ProcessMapping& mapping = *next.mapping;
    const bool joins =
        previous != nullptr && next.same_object_as(*previous) && mapping.start <= parts_.back().end;
    if (joins) {
      parts_.back().end = std::max(parts_.back().end, mapping.end);
      parts_.back().newest_ns = std::max(parts_.back().newest_ns, mapping.time_ns);
    } else {
      parts_.push_back(part_of(mapping, process, objects));
    }
    by_id_.emplace(next.id, parts_.size() - 1);
    previous = &next;
  }
}

void MappingLayout::move_older_from_newer() {
  std::vector<std::size_t> newest_first(parts_.size());
  std::iota(newest_first.begin(), newest_first.end(), 0);
  std::ranges::stable_sort(newest_first, std::ranges::greater{},
                           [this](std::size_t index) { return parts_[index].newest_ns; });
  std::map<std::uint64_t, std::uint64_t> end_by_start;
  std::uint64_t next_free = kMovedMappingsBase;
  for (const std::size_t index : newest_first) {
    ObjectPart& part = parts_[index];
    if (overlaps_any(end_by_start, part)) {
      part.shift = next_free - part.start;
      next_free += part.end - part.start + kGapBytes;
    } else {
      end_by_start.emplace(part.start, part.end);
    }
  }
}

}  // namespace profd
