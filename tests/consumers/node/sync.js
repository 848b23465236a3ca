// SPDX-License-Identifier: MIT
// For the tests: what a consumer prints to a full pipe holds it up, as it does
// in other languages.
"use strict";

const fs = require("node:fs");

const never = new Int32Array(new SharedArrayBuffer(4));

console.log = (line) => {
  for (;;) {
    try {
      fs.writeSync(1, `${line}\n`);
      return;
    } catch (error) {
      if (error.code !== "EAGAIN")
        throw error;
      Atomics.wait(never, 0, 0, 5);
    }
  }
};
