#include "runtime/sandbox/store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "netpolicy/policy_json.h"
#include "runtime/sandbox/record_fields.h"
#include "tests/support/members.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

// The columns of their own. Every other field is in VisitSpec.
template <typename S, typename Io>
void VisitColumns(S& s, Io& io) {
  io.Required("id", s.id);
  io.Required("state", s.state);
  io.Required("reason", s.reason);
  io.Required("message", s.message);
  io.Required("transition_ms", s.transition_at_ms);
  io.Required("slot", s.slot);
  io.Required("expires_ms", s.expires_at_ms);
  io.Required("created_ms", s.created_at_ms);
}

// What does the same with each field, whatever its need.
template <typename Derived>
struct EachField {
  template <typename T>
  void Required(const std::string& name, T& value) {
    static_cast<Derived*>(this)->Field(name, value);
  }
  template <typename T>
  void Added(const std::string& name, T& value) {
    static_cast<Derived*>(this)->Field(name, value);
  }
  template <typename T>
  void Optional(const std::string& name, T& value) {
    static_cast<Derived*>(this)->Field(name, value);
  }
  template <typename T, typename Visit>
  void Group(const char*, T& value, Visit visit) {
    visit(*static_cast<Derived*>(this), value);
  }
};

// Gives each field a value that no other has.
struct Fill : EachField<Fill> {
  template <typename T>
  void Field(const std::string&, T& value) {
    Set(value);
  }
  void Set(std::string& text) { text = "\"'\\ \xc3\xa9" + std::to_string(++last); }
  void Set(uint32_t& number) { number = ++last; }
  void Set(uint64_t& number) { number = (uint64_t{1} << 40) + ++last; }
  void Set(int64_t& number) { number = 1'700'000'000'000 + ++last; }
  void Set(bool& flag) { flag = true; }
  void Set(State& state) { state = State::kPaused; }
  void Set(wire::Volume::Kind& kind) { kind = wire::Volume::Kind::kHost; }
  void Set(std::map<std::string, std::string>& map) { Set(map["key"]); }
  void Set(netpolicy::SharedPolicy& policy) {
    policy = netpolicy::Share(*netpolicy::ParsePolicy(
        R"({"defaultAction":"deny","egress":[{"action":"allow","target":"example.com"}]})"));
  }
  template <typename T>
  void Set(std::vector<T>& list) {
    Set(list.emplace_back());
    Set(list.emplace_back());
  }
  template <typename T>
  void Set(std::optional<T>& value) {
    Set(value.emplace());
  }
  template <typename T>
  requires requires(T& value, Fill& io) { VisitMembers(value, io); }
  void Set(T& value) { VisitMembers(value, *this); }
  uint32_t last = 0;
};

// The fields as text, by name.
struct Show : EachField<Show> {
  template <typename T>
  void Field(const std::string& name, const T& value) {
    texts[prefix + name] = Text(value);
  }
  template <typename T>
  static std::string Text(const T& value) {
    if constexpr (requires(Show io) { VisitMembers(value, io); }) {
      Show members;
      VisitMembers(value, members);
      return testing::PrintToString(members.texts);
    } else {
      return testing::PrintToString(value);
    }
  }
  static std::string Text(const netpolicy::SharedPolicy& policy) {
    return policy ? netpolicy::PolicyToJson(*policy) : "";
  }
  static std::string Text(const std::optional<Platform>& platform) {
    return platform ? Text(*platform) : "";
  }
  static std::string Text(const std::vector<wire::Volume>& volumes) {
    std::string text;
    for (const wire::Volume& volume : volumes) text += Text(volume);
    return text;
  }
  std::string prefix;
  std::map<std::string, std::string> texts;
};

std::map<std::string, std::string> FieldsOf(const Sandbox& s) {
  Show show;
  VisitColumns(s, show);
  show.prefix = "spec.";
  VisitSpec(s, show);
  return show.texts;
}

Sandbox Sample() {
  Sandbox s;
  Fill fill;
  VisitColumns(s, fill);
  VisitSpec(s, fill);
  return s;
}

void ExpectSame(const Sandbox& a, const Sandbox& b) {
  EXPECT_EQ(FieldsOf(a), FieldsOf(b));
}

TEST(Store, EveryFieldIsVisited) {
  // Not counted: the request for a network as a whole, and the id in it.
  EXPECT_EQ(FieldsOf(Sandbox()).size(),
            Members<Sandbox>() - 1 + Members<netpolicy::SlotRequest>() - 1);
  const auto empty = FieldsOf(Sandbox());
  for (const auto& [name, text] : FieldsOf(Sample())) EXPECT_NE(text, empty.at(name)) << name;
}

TEST(Store, KeepsEveryField) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  Sandbox bare;
  bare.id = "00000000-0000-4000-8000-000000000000";
  ASSERT_TRUE((*store)->Insert(Sample()));
  ASSERT_TRUE((*store)->Insert(bare));
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->size(), 2U);
  const bool first = (*loaded)[0].id == bare.id;
  ExpectSame((*loaded)[first ? 0 : 1], bare);
  ExpectSame((*loaded)[first ? 1 : 0], Sample());
}

TEST(Store, UpdatesWhatMoves) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  Sandbox s = Sample();
  ASSERT_TRUE((*store)->Insert(s));
  s.state = State::kFailed;
  s.reason = "r";
  s.message = "m";
  s.transition_at_ms = 5;
  s.slot = 0;
  s.expires_at_ms.reset();
  ASSERT_TRUE((*store)->Update(s));
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->size(), 1U);
  ExpectSame((*loaded)[0], s);
}

TEST(Store, RefusesTwiceAndUnknown) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  EXPECT_FALSE((*store)->Insert(Sample()));
  Sandbox other = Sample();
  other.id = "other";
  const auto updated = (*store)->Update(other);
  ASSERT_FALSE(updated);
  EXPECT_EQ(updated.error().code(), Code::kNotFound);
  // A failed statement does not spoil the next one.
  EXPECT_TRUE((*store)->Insert(other));
}

TEST(Store, Removes) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  EXPECT_TRUE((*store)->Remove("unknown"));
  EXPECT_EQ((*store)->Load()->size(), 1U);
  EXPECT_TRUE((*store)->Remove(Sample().id));
  EXPECT_EQ((*store)->Load()->size(), 0U);
}

TEST(Store, SurvivesReopeningAndRefusesANewerSchema) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  {
    auto store = Store::Open(path);
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE((*store)->Insert(Sample()));
  }
  {
    auto store = Store::Open(path);
    ASSERT_TRUE(store);
    const auto loaded = (*store)->Load();
    ASSERT_TRUE(loaded);
    ASSERT_EQ(loaded->size(), 1U);
    ExpectSame((*loaded)[0], Sample());
  }
  {
    auto db = sqlite::Db::Open(path);
    ASSERT_TRUE(db);
    ASSERT_TRUE(db->SetUserVersion(1000));
  }
  const auto store = Store::Open(path);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kFailedPrecondition);
  std::filesystem::remove_all(name);
}

TEST(Store, TheLogIsMovedByThePoolAndStaysSmall) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  FakeClock clock;
  FakeLoop loop(clock);
  auto store = Store::Open(path, &loop);
  ASSERT_TRUE(store);
  Sandbox s = Sample();
  ASSERT_TRUE((*store)->Insert(s));
  for (int i = 0; i < 10000; ++i) {
    s.slot = static_cast<uint32_t>(i);
    ASSERT_TRUE((*store)->Update(s));
    loop.Run();
  }
  // 10,000 pages have been written; without checkpoints the log would hold all of them.
  // Room is kept through the log, too.
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), 12U << 20);
  EXPECT_EQ((*Store::Open(path))->Load()->at(0).slot, 9999U);
  std::filesystem::remove_all(name);
}

// As the first release wrote it.
TEST(Store, ReadsARecordOfBeforeThereWereSomeFields) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  auto store = Store::Open(path);
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  auto db = sqlite::Db::Open(path);
  ASSERT_TRUE(db);
  ASSERT_TRUE(db->Exec(
      R"(UPDATE sandboxes SET spec = '{"image":"python:3.11","digest":"sha256:ab","layers":[9,4],)"
      R"("entrypoint":["sh"],"env":{"A":"1"},"metadata":{"team":"ml"},"token":"t","limits":)"
      R"({"memory":1,"swap":2,"pids":3,"cpu":4,"rbps":5,"wbps":6,"riops":7,"wiops":8},)"
      R"("volumes":[{"host":true,"source":"/srv","sub":"","target":"/v","ro":true}],)"
      R"("network":{"name":"n","hostname":""},"platform":{"os":"linux","arch":"arm64"}}')"));
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded) << loaded.error().message();
  Sandbox plain;
  plain.image = "python:3.11";
  plain.image_digest = "sha256:ab";
  plain.layers = {9, 4};
  plain.entrypoint = {"sh"};
  plain.env = {{"A", "1"}};
  plain.metadata = {{"team", "ml"}};
  plain.access_token = "t";
  plain.limits = {.memory_bytes = 1,
                  .swap_bytes = 2,
                  .pids = 3,
                  .cpu_millis = 4,
                  .io_read_bps = 5,
                  .io_write_bps = 6,
                  .io_read_iops = 7,
                  .io_write_iops = 8,
                  .shm_bytes = 64 << 20};
  plain.volumes = {{wire::Volume::Kind::kHost, "/srv", "", "/v", true}};
  plain.network.network = "n";
  plain.platform = Platform{"linux", "arm64"};
  const auto spec = [](const Sandbox& s) {
    Show show;
    VisitSpec(s, show);
    return show.texts;
  };
  EXPECT_EQ(spec(loaded->at(0)), spec(plain));
  std::filesystem::remove_all(name);
}

TEST(Store, ADamagedRecordIsAnErrorWithItsId) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  auto store = Store::Open(path);
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  auto db = sqlite::Db::Open(path);
  ASSERT_TRUE(db);
  ASSERT_TRUE(db->Exec("UPDATE sandboxes SET spec = '{\"image\": 3}'"));
  const auto loaded = (*store)->Load();
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message().find(Sample().id), std::string::npos);
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace atl::sandbox
