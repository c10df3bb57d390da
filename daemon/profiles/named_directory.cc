#include "daemon/profiles/named_directory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "daemon/profiles/counted_samples.h"
#include "daemon/profiles/interpreted_code.h"
#include "daemon/profiles/jit_image_part.h"
#include "daemon/profiles/profiled_object.h"
#include "formats/elf/image_writer.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/profile.h"

namespace profd {
namespace {

constexpr std::uint64_t kFirstCode = std::uint64_t{1} << 32;

// Between the addresses of two locations. More than 1, since the first caller of a stack is written
// one higher and must not look like a copy of the leaf (formats/profile/gperftools_format.h).
constexpr std::uint64_t kLocationBytes = 16;

constexpr std::size_t kBuildIdDigits = 40;
constexpr std::string_view kJitMapping = "[jit]";
constexpr std::string_view kKernelMapping = "[kernel.kallsyms]";
constexpr std::string_view kCutEnd = "...";
constexpr std::string_view kImageEnd = "_fini";  // marks the end of an image

std::uint64_t next_page(std::uint64_t address) { return (address + kPage - 1) / kPage * kPage; }

// "[vdso]" becomes "vdso".
std::string_view without_brackets(std::string_view name) {
  const bool has_brackets = name.size() > 2 && name.starts_with('[') && name.ends_with(']');
  return has_brackets ? name.substr(1, name.size() - 2) : name;
}

// Processes with one name and different labels can have the same stack.
void add_up(std::vector<NamedDirectory::CountedStack>& stacks) {
  std::ranges::sort(stacks, {}, &NamedDirectory::CountedStack::stack);
  std::size_t kept = 0;
  for (const NamedDirectory::CountedStack& next : stacks) {
    if (kept != 0 && stacks[kept - 1].stack == next.stack) {
      stacks[kept - 1].samples += next.samples;
    } else {
      stacks[kept++] = next;
    }
  }
  stacks.resize(kept);
}

}  // namespace

NamedDirectory::NamedDirectory(const PprofProfile& profile) : profile_(profile) {
  place_locations();
  name_images();
  find_processes();
}

void NamedDirectory::place_locations() {
  const auto locations = profile_.locations();
  const auto functions = profile_.functions();
  std::vector<std::uint32_t> order(locations.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto function_of = [&](std::uint32_t location) { return outermost(location).function; };
  std::ranges::sort(order, {}, [&](std::uint32_t i) {
    return std::tuple(locations[i].mapping, functions[function_of(i)].name, function_of(i),
                      locations[i].address, i);
  });
  places_.resize(locations.size());
  std::uint64_t next = kFirstCode;
  for (const std::uint32_t i : order) {
    const bool is_new = images_.empty() || images_.back().mapping != locations[i].mapping;
    if (is_new) {
      next = next_page(next) + kPage;
      images_.push_back({.mapping = locations[i].mapping, .code = {next, next}});
    }
    Image& image = images_.back();
    image.locations.push_back(i);
    places_[i] = {next, static_cast<std::uint32_t>(images_.size() - 1)};
    image.code.end = next += kLocationBytes;
  }
}

const PprofLine& NamedDirectory::outermost(std::uint32_t location) const {
  return profile_.lines(profile_.locations()[location].lines).back();
}

std::string NamedDirectory::mapping_name(std::uint32_t mapping) const {
  if (mapping == PprofLocation::kNoMapping) return "unknown";
  const std::string_view file = profile_.text(profile_.mappings()[mapping].file);
  if (file == kKernelMapping) return "kernel";
  return plain_name(std::string(without_brackets(file)));
}

std::string_view NamedDirectory::object_of(const Image& image) const {
  if (image.mapping == PprofLocation::kNoMapping) return {};
  return profile_.text(profile_.mappings()[image.mapping].file);
}

// Two files can have one name.
void NamedDirectory::name_images() {
  std::set<std::string> taken;
  for (Image& image : images_) {
    image.name = mapping_name(image.mapping);
    std::string stem = image.name;
    if (image.mapping != PprofLocation::kNoMapping) {
      const auto id = profile_.text(profile_.mappings()[image.mapping].build_id);
      if (!id.empty())
        stem.append("-").append(plain_name(std::string(id.substr(0, kBuildIdDigits))));
    }
    image.stem = stem;
    for (int number = 2; !taken.insert(image.stem).second; ++number) {
      image.stem = stem + "-" + std::to_string(number);
    }
    image.line_path = line_path_of_image(image.stem);
    image.line = mapping_line({.start = image.code.start - kPage,
                               .end = image.code.end,
                               .file_offset = kElfTextOffset,
                               .path = image.line_path});
  }
}

void NamedDirectory::find_processes() {
  std::map<std::pair<std::uint32_t, std::string>, Process> found;
  std::vector<Process*> by_labels(profile_.labels_count());
  const auto samples = profile_.samples();
  const CountedSamples counted(profile_);
  for (std::uint32_t i = 0; i < samples.size(); ++i) {
    Process*& process = by_labels[samples[i].labels];
    if (process == nullptr) process = &found[process_of(samples[i].labels)];
    process->last_values = sum_within_limits(process->last_values, profile_.values(i).back());
    const std::uint64_t count = counted[i];
    if (count != 0) process->stacks.push_back({samples[i].stack, count});
  }
  for (auto& [id, process] : found) {
    add_up(process.stacks);
    process.pid = id.first;
    process.comm = id.second;
    processes_.push_back(std::move(process));
  }
}

std::pair<std::uint32_t, std::string> NamedDirectory::process_of(std::uint32_t labels) const {
  std::pair<std::uint32_t, std::string> process;
  for (const PprofLabel& label : profile_.labels(labels)) {
    const std::string_view key = profile_.text(label.key);
    if (key == "pid") process.first = static_cast<std::uint32_t>(label.number);
    if (key == "comm") process.second = profile_.text(label.text);
  }
  return process;
}

std::string NamedDirectory::encode_profile(const Process& process, std::uint64_t period) const {
  Profile profile;
  profile.period = period;
  std::vector<char> used(images_.size());
  std::vector<Frame> frames;
  for (const CountedStack& counted : process.stacks) {
    const auto stack = profile_.stack(counted.stack);
    frames.resize(stack.size());
    for (std::size_t i = 0; i < stack.size(); ++i) {
      const Placed& place = places_[stack[i]];
      used[place.image] = 1;
      frames[i] = {.pc = place.address, .kind = PcKind::kExact};
    }
    profile.add_stack(frames, counted.samples);
  }
  const std::string lines = lines_of(used, process.comm);
  if (!lines.empty()) profile.build_dir = ".";
  return encode_gperftools(profile, lines);
}

// The line of the executable comes first, if its name shows which it is: readers take it for the
// title.
std::string NamedDirectory::lines_of(const std::vector<char>& used, const std::string& comm) const {
  std::string lines;
  const std::string name = plain_name(comm);
  for (std::size_t i = 0; i < images_.size(); ++i) {
    if (used[i] == 0) continue;
    const bool is_executable = !comm.empty() && images_[i].name.starts_with(name);
    lines.insert(is_executable ? 0 : lines.size(), images_[i].line);
  }
  return lines;
}

std::string NamedDirectory::image_path(std::size_t image) const {
  return path_in_result(images_[image].line_path);
}

// As it is in the file, so that readers demangle it as they do with names of the file itself. A
// mangled name that was cut does not demangle.
std::string NamedDirectory::symbol_of(const Image& image, const PprofFunction& function,
                                      std::uint64_t address) const {
  const std::string_view system_name = profile_.text(function.system_name);
  const bool is_cut = system_name.empty() || system_name.ends_with(kCutEnd);
  const std::string_view name = is_cut ? profile_.text(function.name) : system_name;
  const std::string_view object = object_of(image);
  if (object == kJitMapping) return jit_symbol(name, address);
  if (is_interpreted_object(object)) return interpreted_symbol(name, address);
  if (name.empty() || name == kImageEnd) return "[" + image.name + "]";
  return std::string(name);
}

JitImage NamedDirectory::image_of(const Image& image, JitImageLayout& layout) const {
  JitImage made;
  made.name = image.name;
  const bool is_interpreted = is_interpreted_object(object_of(image));
  std::map<std::uint32_t, std::uint32_t> file_numbers;
  std::uint32_t last = 0;
  for (const std::uint32_t location : image.locations) {
    const PprofLine& line = outermost(location);
    const PprofFunction& function = profile_.functions()[line.function];
    const std::uint64_t address = places_[location].address;
    if (made.functions.empty() || line.function != last) {
      layout.addresses.push_back(address);
      made.functions.push_back({.address = address,
                                .bytes = 0,
                                .name = symbol_of(image, function, address),
                                .code = {},
                                .lines = {}});
    }
    last = line.function;
    JitImageFunction& symbol = made.functions.back();
    symbol.bytes = address - symbol.address + kLocationBytes;
    if (function.file == 0) continue;
    const auto [file, added] = file_numbers.try_emplace(function.file, made.files.size());
    if (added) {
      const std::string_view name = profile_.text(function.file);
      made.files.push_back(is_interpreted ? image_file(name) : std::string(name));
    }
    symbol.lines.push_back(
        {.code_offset = static_cast<std::uint32_t>(address - symbol.address),
         .line = static_cast<std::uint32_t>(std::max<std::int64_t>(line.line, 0)),
         .column = 0,
         .file = file->second});
  }
  layout.placements = {
      {.start = image.code.start - kPage, .end = image.code.end, .file_offset = kElfTextOffset}};
  return made;
}

std::string NamedDirectory::encode_image(std::size_t image, std::uint64_t max_bytes) const {
  JitImageLayout layout;
  JitImage made = image_of(images_[image], layout);
  std::string bytes = encode_jit_image(made, layout).bytes;
  if (bytes.size() <= max_bytes) return bytes;
  const AddressRange& code = images_[image].code;
  made.files.clear();
  made.functions = {{.address = code.start,
                     .bytes = code.end - code.start,
                     .name = "[" + made.name + "]",
                     .code = {},
                     .lines = {}}};
  layout.addresses = {code.start};
  return encode_jit_image(made, layout).bytes;
}

}  // namespace profd
