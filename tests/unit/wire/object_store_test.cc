#include "runtime/wire/object_store.h"

#include <gtest/gtest.h>

#include "runtime/wire/spawner.h"
#include "runtime/wire/volume.h"

namespace atl::wire {
namespace {

TEST(ObjectStore, ALineOfTheOperators) {
  const auto least = ParseObjectStore("main https://S3.Example/ bucket=data");
  ASSERT_TRUE(least) << least.error().message();
  EXPECT_EQ(least->name, "main");
  EXPECT_TRUE(least->tls);
  EXPECT_EQ(least->host, "s3.example");
  EXPECT_EQ(least->port, 443);
  EXPECT_EQ(least->buckets, (std::vector<std::string>{"data"}));
  EXPECT_EQ(least->credentials, "");
  EXPECT_EQ(least->region, "us-east-1");
  EXPECT_FALSE(least->host_style);
  EXPECT_EQ(EndpointOf(*least), "https://s3.example");

  const auto all = ParseObjectStore(
      "  m-2   http://10.0.0.9:9000 bucket=one bucket=* credentials=/etc/a region=eu-1 style=host "
      "ca=/etc/ca.pem ");
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_FALSE(all->tls);
  EXPECT_EQ(all->host, "10.0.0.9");
  EXPECT_EQ(all->port, 9000);
  EXPECT_EQ(all->buckets, (std::vector<std::string>{"one", "*"}));
  EXPECT_EQ(all->credentials, "/etc/a");
  EXPECT_EQ(all->region, "eu-1");
  EXPECT_TRUE(all->host_style);
  EXPECT_EQ(all->ca, "/etc/ca.pem");
  EXPECT_EQ(EndpointOf(*all), "http://10.0.0.9:9000");
}

TEST(ObjectStore, WhatIsNone) {
  const std::string rows[] = {
      "",
      "main",
      "main https://s3.example",
      "Main https://s3.example bucket=data",
      "a/b https://s3.example bucket=data",
      std::string(64, 'a') + " https://s3.example bucket=data",
      "main s3.example bucket=data",
      "main ftp://s3.example bucket=data",
      "main https:// bucket=data",
      "main https://s3.example/path bucket=data",
      "main https://s3.example?x bucket=data",
      "main https://user@s3.example bucket=data",
      "main https://s3.example:0 bucket=data",
      "main https://s3.example:65536 bucket=data",
      "main https://s3.example:80x bucket=data",
      "main https://s3..example bucket=data",
      "main https://-s3.example bucket=data",
      "main https://s3,example bucket=data",
      "main https://[::1] bucket=data",
      "main https://" + std::string(254, 'a') + " bucket=data",
      "main https://s3.example bucket=",
      "main https://s3.example bucket=Data",
      "main https://s3.example bucket=data/x",
      "main https://s3.example bucket=data credentials=relative",
      "main https://s3.example bucket=data credentials=/a/../b",
      "main https://s3.example bucket=data ca=",
      "main https://s3.example bucket=data region=",
      "main https://s3.example bucket=data region=a,b",
      "main https://s3.example bucket=data style=both",
      "main https://s3.example bucket=data url=http://elsewhere",
      "main https://s3.example bucket=data secret",
  };
  for (const std::string& row : rows) {
    const auto store = ParseObjectStore(row);
    ASSERT_FALSE(store) << row;
    EXPECT_EQ(store.error().code(), Code::kInvalidArgument) << row;
  }
}

TEST(ObjectStore, EachHasItsName) {
  std::vector<ObjectStore> stores;
  ASSERT_TRUE(AddObjectStore("a https://s3.example bucket=data", &stores));
  EXPECT_FALSE(AddObjectStore("a https://other.example bucket=data", &stores));
  EXPECT_FALSE(AddObjectStore("b", &stores));
  for (size_t i = 1; i < kMaxObjectStores; ++i) {
    ASSERT_TRUE(
        AddObjectStore("n" + std::to_string(i) + " https://s3.example bucket=data", &stores));
  }
  EXPECT_FALSE(AddObjectStore("one-more https://s3.example bucket=data", &stores));
  EXPECT_EQ(stores.size(), kMaxObjectStores);
}

TEST(ObjectStore, WhichOneAClientMeans) {
  const ObjectStore store = *ParseObjectStore("main https://s3.example bucket=data");
  for (const char* endpoint : {"main", "https://s3.example", "https://s3.example/", "s3.example",
                               "S3.EXAMPLE", "https://s3.example:443", "s3.example:443"}) {
    EXPECT_TRUE(IsAt(store, endpoint)) << endpoint;
  }
  for (const char* endpoint :
       {"", "Main", "http://s3.example", "https://s3.example:80", "s3.example:0",
        "https://s3.example.evil.example", "https://s3.example@evil.example",
        "https://evil.example/s3.example", "https://s3.example#", "https://https://s3.example",
        "https://main", "s3.example:", "s3.example\n"}) {
    EXPECT_FALSE(IsAt(store, endpoint)) << endpoint;
  }
  EXPECT_TRUE(AllowsBucket(store, "data"));
  EXPECT_FALSE(AllowsBucket(store, "data2"));
  EXPECT_FALSE(AllowsBucket(store, "*"));
  EXPECT_TRUE(AllowsBucket(*ParseObjectStore("m http://h bucket=*"), "anything"));
}

TEST(ObjectStore, NamesOfBuckets) {
  for (const char* name : {"abc", "a-b.c", "0a9"}) EXPECT_TRUE(ValidBucketName(name)) << name;
  for (const std::string& name :
       {std::string("ab"), std::string(64, 'a'), std::string("-ab"), std::string("ab."),
        std::string("a..b"), std::string("aBc"), std::string("a:b"), std::string("a/b"),
        std::string("a,b"), std::string("a b"), std::string("a\0b", 3), std::string("a\nb")}) {
    EXPECT_FALSE(ValidBucketName(name)) << name;
  }
  EXPECT_TRUE(ValidPrefix(""));
  EXPECT_TRUE(ValidPrefix("a/b c,d=e/\xc3\xa9"));
  for (const char* prefix : {"/a", "a/", "a//b", "..", "a/../b", "a:b", "a\nb", "a\x7f"}) {
    EXPECT_FALSE(ValidPrefix(prefix)) << prefix;
  }
  const auto name = ParseSource("main/data");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->store, "main");
  EXPECT_EQ(name->bucket, "data");
  EXPECT_EQ(SourceOf(*name), "main/data");
  for (const char* source : {"", "main", "/data", "main/", "main/da/ta", "../data", "Main/data"}) {
    EXPECT_FALSE(ParseSource(source)) << source;
  }
}

TEST(ObjectStore, Credentials) {
  const auto parsed = ParseCredentials("KEY:sec/ret+=:\nmore\n");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, (ObjectCredentials{"KEY", "sec/ret+=:"}));
  for (const std::string& text :
       {std::string(), std::string("\nKEY:secret"), std::string("hush-hush"), std::string(":hush"),
        std::string("KEY:"), std::string("KEY:hu sh"), std::string("KEY:hush\r\n"),
        "KEY:" + std::string(kMaxObjectKey + 1, 'x'), std::string("KEY:hu\0sh", 9)}) {
    const auto wrong = ParseCredentials(text);
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().message().find("hu"), std::string::npos) << text;
  }
  EXPECT_FALSE(ValidCredentials({"KEY:x", "secret"}));
  EXPECT_FALSE(ValidCredentials({}));
}

Volume Bucket(const std::string& target = "/data") {
  return {Volume::Kind::kObjects, "main/data", "", target, false, true};
}

TEST(ObjectStore, AMountIsChecked) {
  MountObjects good{1, 0, Bucket(), {"KEY", "secret"}};
  EXPECT_TRUE(CheckForm(good));
  const auto refused = [&](auto change) {
    MountObjects bad = good;
    change(bad);
    return !CheckForm(bad);
  };
  EXPECT_TRUE(refused([](auto& mount) { mount.index = kMaxVolumes; }));
  EXPECT_TRUE(refused([](auto& mount) { mount.volume.kind = Volume::Kind::kNamed; }));
  EXPECT_TRUE(refused([](auto& mount) { mount.volume.source = "main/../x"; }));
  EXPECT_TRUE(refused([](auto& mount) { mount.volume.sub_path = "a:/b"; }));
  EXPECT_TRUE(refused([](auto& mount) { mount.credentials = {}; }));
  EXPECT_TRUE(refused([](auto& mount) { mount.credentials.secret = "two\nlines"; }));
  // Without own credentials, only the operator's may be used.
  EXPECT_TRUE(refused([](auto& mount) { mount.volume.own_credentials = false; }));
  good.volume.own_credentials = false;
  good.credentials = {};
  EXPECT_TRUE(CheckForm(good));
}

TEST(ObjectStore, NothingLiesInABucketAndThereAreFew) {
  Volume other{Volume::Kind::kNamed, "claim", "", "/data/below", false};
  EXPECT_FALSE(CheckForm({Bucket(), other}));
  EXPECT_FALSE(CheckForm({other, Bucket()}));
  other.target = "/database";
  EXPECT_TRUE(CheckForm({Bucket(), other}));
  other.own_credentials = true;
  EXPECT_FALSE(CheckForm({other}));
  std::vector<Volume> many;
  for (size_t i = 0; i < kMaxBuckets; ++i) many.push_back(Bucket("/b" + std::to_string(i)));
  EXPECT_TRUE(CheckForm(many));
  many.push_back(Bucket("/last"));
  EXPECT_FALSE(CheckForm(many));
}

}  // namespace
}  // namespace atl::wire
