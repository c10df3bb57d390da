// Starts the page of a file that profctl wrote: the tree is in the file.

import {FlamePage} from "./flame_page.js";

new FlamePage(document.body, JSON.parse(document.getElementById("data").textContent));
performance.mark("profd-shown");
