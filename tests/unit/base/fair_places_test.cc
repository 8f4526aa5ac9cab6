#include "runtime/base/fair_places.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace atl {
namespace {

// Takes places until one is refused. Returns their number.
size_t Fill(FairPlaces& places, const std::string& party, std::vector<FairPlaces::Place>* held) {
  size_t count = 0;
  for (; places.HasRoomFor(party); ++count) held->push_back(places.Take(party));
  return count;
}

TEST(FairPlaces, APartyLeavesSomeToThoseThatComeLater) {
  FairPlaces places(16);
  std::vector<FairPlaces::Place> held;
  EXPECT_EQ(Fill(places, "red", &held), 8U);
  EXPECT_EQ(Fill(places, "blue", &held), 4U);
  EXPECT_EQ(Fill(places, "green", &held), 2U);
  EXPECT_EQ(Fill(places, "red", &held), 0U);
  // The host takes the rest.
  EXPECT_EQ(Fill(places, "", &held), 2U);
  EXPECT_FALSE(places.HasRoomFor("black"));
  held.clear();
  EXPECT_EQ(Fill(places, "", &held), 16U);
}

TEST(FairPlaces, TheOnlyPlaceCanBeTaken) {
  FairPlaces places(1);
  const auto place = places.Take("red");
  EXPECT_FALSE(places.HasRoomFor("red"));
  EXPECT_FALSE(FairPlaces(0).HasRoomFor(""));
}

TEST(FairPlaces, APlaceMayOutliveThem) {
  auto places = std::make_unique<FairPlaces>(2);
  auto place = places->Take("red");
  places.reset();
  place.reset();
}

TEST(FairPlaces, SeveralAreAllowedAtOnceWhereOneByOneIs) {
  for (uint64_t limit = 0; limit <= 12; ++limit) {
    for (uint64_t others = 0; others <= 12; ++others) {
      for (uint64_t own = 0; own <= 12; ++own) {
        for (uint64_t more = 1; more <= 12; ++more) {
          bool each = true;
          for (uint64_t i = 0; i < more; ++i) {
            each = each && FairPlaces::Allows(limit, "red", others + own + i, own + i);
          }
          ASSERT_EQ(FairPlaces::Allows(limit, "red", others + own, own, more), each)
              << limit << " " << others << " " << own << " " << more;
        }
      }
    }
  }
  EXPECT_FALSE(FairPlaces::Allows(10, "", 1, 1, UINT64_MAX));
  EXPECT_FALSE(FairPlaces::Allows(10, "red", 11, 11));
}

}  // namespace
}  // namespace atl
