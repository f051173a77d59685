"""Prints the layouts of the requests and responses of the Kafka whose clients' jar is named: the table crates/wire/src/json/layouts.txt."""

import json
import re
import sys
import zipfile

PLACE = "common/message/"


def fields_of(fields, common, depth):
    for field in fields:
        kind = field["type"]
        array = "[]" if kind.startswith("[]") else ""
        name = kind.removeprefix("[]")
        inner = field.get("fields") or common.get(name)
        words = [field["name"], array + ("struct" if inner else name), field["versions"]]
        if "nullableVersions" in field:
            words.append("null=" + field["nullableVersions"])
        if "tag" in field:
            words.append(f"tag={field['tag']}@{field['taggedVersions']}")
        if "flexibleVersions" in field:
            words.append("flexible=" + field["flexibleVersions"])
        default = str(field.get("default", "")).replace("False", "false").replace("True", "true")
        if default not in ("", "0", "false"):
            words.append("default=" + default)
        print(" " * depth + " ".join(words).replace(" +", "+"))
        if inner:
            fields_of(inner, common, depth + 1)


def main():
    jar = zipfile.ZipFile(sys.argv[1])
    release = re.search(r"-(\d[\d.]*)\.jar", sys.argv[1]).group(1)
    print(f"# Layouts of the messages of Apache Kafka {release}, printed by tests/python/layouts.py: direction, key, name, versions and")
    print("# flexible versions of a message; name, type and versions of each field, the versions that may be null, tag and default.")
    messages = {}
    for name in jar.namelist():
        if name.startswith(PLACE) and name.endswith(".json"):
            text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.M)
            message = json.loads(text)
            if message["type"] in ("request", "response") and message["validVersions"] != "none":
                messages[message["apiKey"], message["type"]] = message
    for (key, kind), message in sorted(messages.items()):
        name = message["name"].removesuffix("Request").removesuffix("Response")
        words = [kind, str(key), name, message["validVersions"], message.get("flexibleVersions", "none")]
        if message.get("latestVersionUnstable"):
            words.append("unstable")
        print(" ".join(words))
        common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
        fields_of(message["fields"], common, 1)


main()
