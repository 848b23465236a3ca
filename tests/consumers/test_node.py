# SPDX-License-Identifier: MIT
"""The consumer in JavaScript.

What it needs comes from npm, pinned by node/package-lock.json, into the build
folder.  better-sqlite3 is compiled there, without the optimisation that would
take minutes.
"""
import os
import re
import shutil
import subprocess

import proof
import rig
from test_sqlite import SqliteDatabase

FOLDER = os.path.join(os.environ["POSTBAG_BUILD"], "consumer_node")
FILES = ("package.json", "package-lock.json", ".npmrc")
LEAST_NODE = 20


class Node(SqliteDatabase, proof.Proof, rig.Case):
    FILES = ("node/consumer.js",)
    OWN_MARKER = (
        ("consumer.js", """\
  if (sql.mark.run(event.source, event.id).changes === 0)
""", """\
  if (db.prepare("SELECT 1 FROM seen WHERE source = ? AND id = ?")
    .get(event.source, event.id))
"""),
        ("consumer.js", """\
  tell(event, take.immediate(event));
""", """\
  tell(event, take.immediate(event));
  sql.mark.run(event.source, event.id);
"""))
    EARLY_ACK = (("consumer.js", """\
  handle(packet);
  acknowledge();
""", """\
  acknowledge();
  setTimeout(handle, 500, packet);
"""),)

    def command(self, folder):
        return ["node", os.path.join(folder, "consumer.js")]


def run(*command):
    done = subprocess.run(command, cwd=FOLDER, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=280)
    if done.returncode != 0:
        print(done.stdout)
        proof.skip(f"{' '.join(command)} failed")
    return done.stdout


def install():
    """FOLDER has what the consumer requires."""
    os.makedirs(FOLDER, exist_ok=True)
    for name in FILES:
        shutil.copy(os.path.join(proof.HERE, "node", name), FOLDER)
    version = run("node", "--version").strip()
    if int(re.match(r"v(\d+)", version)[1]) < LEAST_NODE:
        proof.skip(f"not in Debian 12: Node {LEAST_NODE}, which better-sqlite3"
                   f" needs; this is {version}")
    with open(os.path.join(FOLDER, FILES[1]), encoding="utf-8") as file:
        wanted = version + file.read()
    done = os.path.join(FOLDER, "installed")
    if os.path.exists(done):
        with open(done, encoding="utf-8") as file:
            if file.read() == wanted:
                return
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(
        shutil.which("node"))))
    if os.path.exists(os.path.join(prefix, "include/node/node.h")):
        os.environ["npm_config_nodedir"] = prefix
    run("npm", "ci", "--ignore-scripts")
    run("npm", "explore", "better-sqlite3", "--", "node-gyp", "rebuild",
        "--debug")
    with open(done, "w", encoding="utf-8") as file:
        file.write(wanted)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub", "node", "npm")
    install()
    os.environ["NODE_PATH"] = os.path.join(FOLDER, "node_modules")
    os.environ["NODE_OPTIONS"] = "--require=" + os.path.join(
        proof.HERE, "node", "sync.js")
    rig.main()
