/** A handler that does well, wherever its module can be loaded. */

export const handler = () => "loaded";
