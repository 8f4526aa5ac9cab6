#include "runtime/http/message.h"

#include <algorithm>

#include "runtime/http/ascii.h"

namespace atl::http {

std::string_view Headers::Get(std::string_view name) const {
  for (const Header& header : list) {
    if (EqualNoCase(header.name, name)) return header.value;
  }
  return {};
}

bool Headers::Has(std::string_view name) const {
  return std::any_of(list.begin(), list.end(),
                     [&](const Header& header) { return EqualNoCase(header.name, name); });
}

void Headers::Set(std::string name, std::string value) {
  Remove(name);
  Add(std::move(name), std::move(value));
}

void Headers::Add(std::string name, std::string value) {
  list.push_back({std::move(name), std::move(value)});
}

void Headers::Remove(std::string_view name) {
  std::erase_if(list, [&](const Header& header) { return EqualNoCase(header.name, name); });
}

std::string_view Request::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view Request::query() const {
  const size_t mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

}  // namespace atl::http
