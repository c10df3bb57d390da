// varied SECONDS: for so long on a CPU, in as much different code as a short source can have.

#define FMT_HEADER_ONLY

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <iostream>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/algorithm/string.hpp>
#include <boost/container/flat_map.hpp>
#include <boost/json/src.hpp>
#include <boost/lexical_cast.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/cpp_int.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <fmt/format.h>

namespace {

std::size_t sink = 0;
std::mt19937 random_number(1);

std::string make_text(int words) {
  std::string text;
  for (int i = 0; i < words; ++i) {
    text += fmt::format("{:x}{} ", random_number() % 1000, "abcdefghij"[random_number() % 10]);
  }
  return text;
}

void write_and_read_json() {
  boost::json::object object;
  for (int i = 0; i < 40; ++i) {
    boost::json::array array;
    for (int j = 0; j < 10; ++j) array.emplace_back(i * j / 7.0);
    array.emplace_back(make_text(3));
    object[std::to_string(i)] = std::move(array);
  }
  sink += boost::json::parse(boost::json::serialize(object)).as_object().size();
}

void search_text() {
  static const std::regex pattern("([a-f0-9]+)([g-j])|[0-9]{2,3}[a-c]? ");
  const std::string text = make_text(60);
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    sink += static_cast<std::size_t>(at->length());
  }
  std::vector<std::string> words;
  boost::split(words, text, boost::is_any_of(" g"));
  boost::to_upper(words.front());
  sink += boost::join(words, "-").size();
}

template <class Map>
void fill_map() {
  Map map;
  for (int i = 0; i < 500; ++i) map[static_cast<int>(random_number() % 1000)] += std::to_string(i);
  for (int i = 0; i < 500; ++i) sink += map.count(i);
  while (map.size() > 300) map.erase(map.begin());
}

template <class List>
void order_list() {
  List list;
  for (int i = 0; i < 1000; ++i) list.push_back(static_cast<int>(random_number() % 5000));
  std::vector<int> sorted(list.begin(), list.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](int a, int b) { return a % 100 < b % 100; });
  std::partial_sort(sorted.begin(), sorted.begin() + 100, sorted.end());
  std::nth_element(sorted.begin() + 100, sorted.begin() + 500, sorted.end());
  std::make_heap(sorted.begin(), sorted.end());
  sink += static_cast<std::size_t>(std::accumulate(sorted.begin(), sorted.end(), 0) & 7);
}

template <class Number>
void count_with() {
  Number value = 1;
  for (int i = 2; i < 60; ++i) value = value * i + Number(7) / i;
  sink += value.str().size();
}

void write_streams() {
  std::stringstream stream;
  for (int i = 0; i < 200; ++i) stream << i << ' ' << i / 3.0 << ' ' << std::hex << i << ' ';
  for (std::string word; stream >> word;) sink += word.size();
  sink +=
      boost::lexical_cast<std::string>(1.5).size() + fmt::format("{:>10.3f}{:+}", 2.5, 3).size();
}

void throw_and_catch() {
  for (int i = 0; i < 20; ++i) {
    try {
      sink += static_cast<std::size_t>(std::stoi(i % 2 == 0 ? "x" : "12"));
    } catch (const std::exception& error) {
      sink += std::string(error.what()).size();
    }
  }
}

bool has_time(double seconds) {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 < seconds;
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 1;
  while (has_time(seconds)) {
    write_and_read_json();
    search_text();
    fill_map<std::map<int, std::string>>();
    fill_map<std::unordered_map<int, std::string>>();
    fill_map<boost::container::flat_map<int, std::string>>();
    fill_map<boost::unordered_flat_map<int, std::string>>();
    order_list<std::list<int>>();
    order_list<std::deque<int>>();
    count_with<boost::multiprecision::cpp_int>();
    count_with<boost::multiprecision::cpp_bin_float_50>();
    write_streams();
    throw_and_catch();
  }
  std::cout << sink << '\n';
}
