// The caller of the image store. This room cannot know tenants::Caller, because runtime/tenants
// knows images.
#pragma once

#include <concepts>
#include <string>

namespace atl::images {

struct Caller {
  std::string tenant = {};  // owner of the images that the caller makes; empty: the host
  bool sees_all = false;    // the caller reaches the images of all tenants

  Caller() = default;
  // Implicit, so that every function takes a tenants::Caller.
  template <typename Other>
  requires requires(const Other& other) {
    { other.tenant } -> std::convertible_to<std::string>;
    { other.sees_all } -> std::convertible_to<bool>;
  }
  Caller(const Other& other)  // NOLINT(google-explicit-constructor)
      : tenant(other.tenant), sees_all(other.sees_all) {}

  // Returns true if the caller may know of an image of that owner, beside those of the host.
  bool Sees(const std::string& owner) const { return sees_all || owner == tenant; }
};

}  // namespace atl::images
