/** Says what is seen in the pixels that come in: four bytes each. */

import { buffer } from "node:stream/consumers";

import { analyse } from "../../server/leaseway_server/web/pages/showcase/palette.js";

console.log(JSON.stringify(analyse(await buffer(process.stdin))));
